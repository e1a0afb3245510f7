// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * /sys/kernel/debug/tombolo_edma/DEVICE/status: one "name value" a line.
 */
#include <linux/debugfs.h>
#include <linux/seq_file.h>

#include "edma.h"

static struct dentry *tombolo_root;

static const char * const tombolo_modes[] = {
	[TOMBOLO_IRQ_POLLING] = "polling",
	[TOMBOLO_IRQ_MSI] = "msi",
	[TOMBOLO_IRQ_MSIX] = "msi-x",
};

static const char * const tombolo_formats[8] = {
	[EDMA_MF_EDMA_LEGACY] = "legacy",
	[EDMA_MF_EDMA_UNROLL] = "unroll",
	[EDMA_MF_HDMA_COMPAT] = "hdma-compat",
	[EDMA_MF_HDMA_NATIVE] = "hdma-native",
};

static void tombolo_show_stats(struct seq_file *s, const char *prefix,
			       const struct tombolo_stats *stats)
{
	seq_printf(s, "%ssubmitted %llu\n", prefix, stats->submitted);
	seq_printf(s, "%scompleted %llu\n", prefix, stats->completed);
	seq_printf(s, "%sfailed %llu\n", prefix, stats->failed);
	seq_printf(s, "%speriods %llu\n", prefix, stats->periods);
	seq_printf(s, "%sbytes %llu\n", prefix, stats->bytes);
	seq_printf(s, "%ssegments %llu\n", prefix, stats->segments);
	seq_printf(s, "%sdoorbells %llu\n", prefix, stats->doorbells);
	seq_printf(s, "%sdoorbells_again %llu\n", prefix, stats->doorbells_again);
	seq_printf(s, "%sevents %llu\n", prefix, stats->events);
	seq_printf(s, "%sspurious %llu\n", prefix, stats->spurious);
	seq_printf(s, "%sfound_by_looking %llu\n", prefix, stats->found_by_looking);
	seq_printf(s, "%sviolations %llu\n", prefix, stats->violations);
}

/* All fields are u64. */
static void tombolo_add_stats(struct tombolo_stats *sum, const struct tombolo_stats *stats)
{
	const u64 *from = (const u64 *)stats;
	u64 *to = (u64 *)sum;
	unsigned int i;

	for (i = 0; i < sizeof(*sum) / sizeof(u64); i++)
		to[i] += from[i];
}

static int tombolo_status_show(struct seq_file *s, void *unused)
{
	struct tombolo_edma *edma = s->private;
	struct tombolo_stats stats, sum = {};
	struct tombolo_chan *chan;
	u64 interrupts = 0, spurious = 0;
	char prefix[32];
	unsigned int i;

	for (i = 0; i < edma->requested; i++) {
		interrupts += READ_ONCE(edma->vector[i].interrupts);
		spurious += READ_ONCE(edma->vector[i].spurious);
	}
	seq_printf(s, "format %s\n", tombolo_formats[edma->engine.format & 7]);
	seq_printf(s, "write_channels %u\n", edma->engine.write_channels);
	seq_printf(s, "read_channels %u\n", edma->engine.read_channels);
	seq_printf(s, "irq %s\n", edma->polled ? "polling" : tombolo_modes[edma->vectors.mode]);
	seq_printf(s, "vectors %u\n", edma->requested);
	seq_printf(s, "interrupts %llu\n", interrupts);
	for (i = 0; i < edma->requested; i++)
		seq_printf(s, "vector%u %llu\n", i, READ_ONCE(edma->vector[i].interrupts));
	seq_printf(s, "spurious_interrupts %llu\n", spurious);
	seq_printf(s, "messages_followed %llu\n", READ_ONCE(edma->messages_followed));
	seq_printf(s, "gone %d\n", tombolo_edma_is_gone(edma->handles.shared));
	for (i = 0; i < edma->count; i++) {
		tombolo_dmaengine_stats(&edma->channels[i], &stats);
		tombolo_add_stats(&sum, &stats);
	}
	tombolo_show_stats(s, "", &sum);
	for (i = 0; i < edma->count; i++) {
		chan = &edma->channels[i];
		tombolo_dmaengine_stats(chan, &stats);
		if (!stats.submitted)
			continue;
		snprintf(prefix, sizeof(prefix), "%s%u.", chan->kind ? "read" : "write",
			 chan->index);
		tombolo_show_stats(s, prefix, &stats);
	}
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(tombolo_status);

void tombolo_debugfs_init(void)
{
	tombolo_root = debugfs_create_dir(TOMBOLO_NAME, NULL);
}

void tombolo_debugfs_exit(void)
{
	debugfs_remove(tombolo_root);
}

void tombolo_debugfs_add(struct tombolo_edma *edma)
{
	edma->debugfs = debugfs_create_dir(pci_name(edma->pdev), tombolo_root);
	debugfs_create_file("status", 0444, edma->debugfs, edma, &tombolo_status_fops);
}

/* Waits for readers. */
void tombolo_debugfs_remove(struct tombolo_edma *edma)
{
	debugfs_remove(edma->debugfs);
	edma->debugfs = NULL;
}

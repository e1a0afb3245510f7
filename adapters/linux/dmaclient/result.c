// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Whether a run passed, and its line of JSON. The kernel log cuts lines off at about 970 bytes.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/kernel.h>
#include <linux/math64.h>
#include <linux/string_choices.h>

#include "dmaclient.h"

static const struct {
	const char *name;
	size_t offset;
} dmac_counts[] = {
	{ "round_trips", offsetof(struct dmac_stats, round_trips) },
	{ "bytes", offsetof(struct dmac_stats, bytes) },
	{ "submitted", offsetof(struct dmac_stats, submitted) },
	{ "completed_ok", offsetof(struct dmac_stats, ok) },
	{ "completed_error", offsetof(struct dmac_stats, error) },
	{ "completed_twice", offsetof(struct dmac_stats, twice) },
	{ "never", offsetof(struct dmac_stats, never) },
	{ "terminated", offsetof(struct dmac_stats, terminated) },
	{ "terminated_told", offsetof(struct dmac_stats, terminated_told) },
	{ "no_descriptor", offsetof(struct dmac_stats, no_desc) },
	{ "refused", offsetof(struct dmac_stats, refused) },
	{ "unmapped", offsetof(struct dmac_stats, unmapped) },
	{ "timeouts", offsetof(struct dmac_stats, timeouts) },
	{ "silent", offsetof(struct dmac_stats, silent) },
	{ "nudges", offsetof(struct dmac_stats, nudges) },
	{ "mismatches", offsetof(struct dmac_stats, mismatches) },
	{ "leaked", offsetof(struct dmac_stats, leaked) },
};

static u64 dmac_transfers(const struct dmac_run *run)
{
	return dmac_read(&run->stats.ok) + dmac_read(&run->stats.error);
}

static u64 dmac_errors(const struct dmac_run *run)
{
	const struct dmac_stats *stats = &run->stats;

	return dmac_read(&stats->error) + dmac_read(&stats->no_desc) +
	       dmac_read(&stats->refused) + dmac_read(&stats->unmapped);
}

/* What no mode forgives. */
static bool dmac_sound(const struct dmac_run *run)
{
	const struct dmac_stats *stats = &run->stats;

	return !run->failure && !dmac_read(&stats->twice) && !dmac_read(&stats->never) &&
	       !dmac_read(&stats->timeouts) && !dmac_read(&stats->silent) &&
	       !dmac_read(&stats->nudges) && !dmac_read(&stats->mismatches) &&
	       !dmac_read(&stats->leaked) &&
	       dmac_transfers(run) + dmac_read(&stats->terminated) ==
	       dmac_read(&stats->submitted);
}

/* What was asked for has been done. */
static bool dmac_complete(const struct dmac_run *run)
{
	const struct dmac_stats *stats = &run->stats;
	u64 asked = run->cfg.transfers;

	switch (run->mode) {
	case DMAC_VERIFY:
		return !dmac_errors(run) && dmac_read(&stats->round_trips) &&
		       dmac_read(&stats->ok) >= asked * run->workers;
	case DMAC_HOLD:
		return dmac_read(&stats->submitted);
	case DMAC_REENTER:
		return !dmac_errors(run) && dmac_read(&stats->ok) == asked * run->nr_chans &&
		       (!run->cfg.terminate_every || asked <= run->cfg.terminate_every ||
			dmac_read(&stats->terminated));
	case DMAC_MEASURE:
		return !dmac_errors(run) && dmac_read(&stats->ok) >= asked;
	case DMAC_IDLE:
		return true;
	}
	return false;
}

void dmac_judge(struct dmac_run *run)
{
	run->passed = dmac_sound(run) && dmac_complete(run);
}

static int dmac_format_measured(const struct dmac_run *run, char *to, size_t size)
{
	int n;

	if (run->mode != DMAC_MEASURE)
		return 0;
	n = scnprintf(to, size, ",\"segments\":%u,\"length\":%u", run->segments, run->length);
	return n + scnprintf(to + n, size - n, ",\"ns_per_transfer\":%llu,\"compared\":%s",
			     div_u64(run->ns, run->cfg.transfers), str_true_false(run->compared));
}

static int dmac_format_text(const char *key, const char *text, char *to, size_t size)
{
	return text ? scnprintf(to, size, ",\"%s\":\"%s\"", key, text) :
		      scnprintf(to, size, ",\"%s\":null", key);
}

/* Each of them after a comma. */
static int dmac_format_counts(const struct dmac_run *run, char *to, size_t size)
{
	const void *stats = &run->stats;
	unsigned int i;
	int n;

	n = scnprintf(to, size, ",\"transfers\":%llu,\"errors\":%llu", dmac_transfers(run),
		      dmac_errors(run));
	for (i = 0; i < ARRAY_SIZE(dmac_counts); i++)
		n += scnprintf(to + n, size - n, ",\"%s\":%llu", dmac_counts[i].name,
			       dmac_read(stats + dmac_counts[i].offset));
	return n + scnprintf(to + n, size - n, ",\"ns\":%llu", run->ns);
}

int dmac_result_format(const struct dmac_run *run, bool running, char *to, size_t size)
{
	const struct dmac_config *cfg = &run->cfg;
	int n;

	n = scnprintf(to, size, "{\"mode\":\"%s\",\"device\":\"%s\",\"driver\":\"%s\"", cfg->mode,
		      cfg->device, run->driver);
	n += scnprintf(to + n, size - n, ",\"running\":%s,\"channels\":%u,\"threads\":%u",
		       str_true_false(running), run->nr_chans, run->workers);
	n += scnprintf(to + n, size - n, ",\"combined\":%u,\"seed\":%u", cfg->combined, run->seed);
	n += dmac_format_counts(run, to + n, size - n);
	n += dmac_format_measured(run, to + n, size - n);
	if (cfg->request_again)
		n += dmac_format_text("request_again", run->again, to + n, size - n);
	n += dmac_format_text("failure", run->failure, to + n, size - n);
	return n + scnprintf(to + n, size - n, ",\"passed\":%s}", str_true_false(run->passed));
}

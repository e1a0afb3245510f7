// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * The channels of one DMA device, and the device memory that each of them may use.
 *
 * Nothing here touches chan->dev after the request: the core frees it when the provider
 * unregisters, which may be while the channel is held.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/dma-mapping.h>
#include <linux/dma/edma.h>
#include <linux/pci.h>
#include <linux/slab.h>
#include <linux/string.h>

#include "dmaclient.h"

static bool dmac_filter(struct dma_chan *chan, void *param)
{
	const struct dmac_run *run = param;

	return !strcmp(dev_name(chan->device->dev), run->cfg.device);
}

static struct dma_chan *dmac_request(struct dmac_run *run)
{
	dma_cap_mask_t mask;

	dma_cap_zero(mask);
	dma_cap_set(DMA_SLAVE, mask);
	return dma_request_channel(mask, dmac_filter, run);
}

static unsigned int dmac_align(const struct dmac_run *run, const struct dma_slave_caps *caps)
{
	u32 widths = caps->src_addr_widths | caps->dst_addr_widths;

	if (run->cfg.align)
		return run->cfg.align;
	/* Bit n stands for n bytes. */
	return widths > 1 ? 1U << __ffs(__ffs(widths & ~1U)) : 4;
}

/* A provider of the dw-edma kind says in chan->private where the channel's device memory is. */
static void dmac_own_window(struct dmac_chan *chan)
{
	const struct dw_edma_region *region = chan->chan->private;

	if (!region)
		return;
	chan->own.addr = region->paddr;
	chan->own.size = region->sz;
}

static int dmac_adopt(struct dmac_run *run, struct dma_chan *dchan)
{
	struct dmac_chan *chan = &run->chans[run->nr_chans];
	struct dma_slave_caps caps;
	int err;

	err = dma_get_slave_caps(dchan, &caps);
	if (err)
		return err;
	chan->dir = caps.directions & BIT(DMA_MEM_TO_DEV) ? DMA_MEM_TO_DEV : DMA_DEV_TO_MEM;
	if (run->cfg.channels && dmac_chans_of(run, chan->dir) >= run->cfg.channels)
		return -ENOSPC;
	chan->run = run;
	chan->chan = dchan;
	chan->align = dmac_align(run, &caps);
	chan->max_sg = run->mode == DMAC_MEASURE ? run->cfg.segments : run->cfg.max_sg;
	if (caps.max_sg_burst)
		chan->max_sg = min(chan->max_sg, caps.max_sg_burst);
	chan->map_dev = get_device(dmaengine_get_dma_device(dchan));
	chan->max_seg = rounddown(min(dma_get_max_seg_size(chan->map_dev), DMAC_MAX_LEN),
				  chan->align);
	chan->non_list = run->cfg.non_list;
	spin_lock_init(&chan->prep_lock);
	dmac_own_window(chan);
	if (!run->dev) {
		run->dev = get_device(dchan->device->dev);
		strscpy(run->driver, dev_driver_string(run->dev), sizeof(run->driver));
	}
	run->nr_chans++;
	return 0;
}

static int dmac_area(struct dmac_run *run)
{
	const struct dmac_config *cfg = &run->cfg;
	resource_size_t len;
	struct pci_dev *pdev;

	if (cfg->data_address) {
		run->area.addr = cfg->data_address;
		run->area.size = cfg->data_size;
		return 0;
	}
	if (cfg->data_bar < 0)
		return 0;
	if (!dev_is_pci(run->dev)) {
		run->failure = "data_bar needs a PCI device";
		return -EINVAL;
	}
	pdev = to_pci_dev(run->dev);
	len = pci_resource_len(pdev, cfg->data_bar);
	if (cfg->data_offset >= len || cfg->data_size > len - cfg->data_offset) {
		run->failure = "data_offset and data_size are not within the BAR";
		return -EINVAL;
	}
	run->area.addr = pci_resource_start(pdev, cfg->data_bar) + cfg->data_offset;
	run->area.size = cfg->data_size ?: len - cfg->data_offset;
	return 0;
}

/* Takes all channels, and lets go of those that are more than asked for. */
int dmac_chans_request(struct dmac_run *run)
{
	struct dma_chan *surplus[DMAC_MAX_CHANNELS];
	unsigned int nr_surplus = 0;
	struct dma_chan *dchan;

	run->chans = kcalloc(DMAC_MAX_CHANNELS, sizeof(*run->chans), GFP_KERNEL);
	if (!run->chans) {
		run->failure = "out of memory";
		return -ENOMEM;
	}
	while (run->nr_chans + nr_surplus < DMAC_MAX_CHANNELS) {
		dchan = dmac_request(run);
		if (!dchan)
			break;
		if (dmac_adopt(run, dchan))
			surplus[nr_surplus++] = dchan;
	}
	while (nr_surplus)
		dma_release_channel(surplus[--nr_surplus]);
	if (!run->nr_chans) {
		run->failure = "the device has no DMA channel to give";
		return -ENODEV;
	}
	return dmac_area(run);
}

void dmac_chans_terminate(struct dmac_run *run)
{
	unsigned int i;

	for (i = 0; i < run->nr_chans; i++)
		dmaengine_terminate_sync(run->chans[i].chan);
}

void dmac_chans_release(struct dmac_run *run)
{
	unsigned int i;

	for (i = 0; i < run->nr_chans; i++) {
		dma_release_channel(run->chans[i].chan);
		run->chans[i].chan = NULL;
	}
}

/* When nothing is mapped any more. */
void dmac_chans_forget(struct dmac_run *run)
{
	unsigned int i;

	for (i = 0; i < run->nr_chans; i++)
		put_device(run->chans[i].map_dev);
	put_device(run->dev);
	run->dev = NULL;
	kfree(run->chans);
	run->chans = NULL;
}

/* A device that has been unbound may still be in the core's list. */
void dmac_request_again(struct dmac_run *run)
{
	struct dma_chan *dchan = dmac_request(run);

	run->again = dchan ? "granted" : "refused";
	if (dchan)
		dma_release_channel(dchan);
}

unsigned int dmac_chans_of(struct dmac_run *run, enum dma_transfer_direction dir)
{
	unsigned int i, n = 0;

	for (i = 0; i < run->nr_chans; i++)
		n += run->chans[i].dir == dir;
	return n;
}

struct dmac_chan *dmac_chan_of(struct dmac_run *run, enum dma_transfer_direction dir,
			       unsigned int nth)
{
	unsigned int i;

	for (i = 0; i < run->nr_chans; i++)
		if (run->chans[i].dir == dir && !nth--)
			return &run->chans[i];
	return NULL;
}

/* Part nth of the device memory that so many share: the parameters', or else the channel's own. */
int dmac_window(struct dmac_run *run, const struct dmac_chan *chan, unsigned int nth,
		unsigned int of, struct dmac_window *window)
{
	const struct dmac_window *all = run->area.size ? &run->area : &chan->own;

	if (!all->size) {
		run->failure = "the provider names no device memory: give data_bar or data_address";
		return -EINVAL;
	}
	window->size = rounddown(div_u64(all->size, of), DMAC_GAP);
	window->addr = all->addr + nth * window->size;
	if (!window->size) {
		run->failure = "too little device memory for so many threads and channels";
		return -ENOSPC;
	}
	return 0;
}

static void dmac_fill_config(struct dmac_chan *chan, u64 slave, struct dma_slave_config *config)
{
	*config = (struct dma_slave_config){ .direction = chan->dir };
	if (chan->dir == DMA_DEV_TO_MEM)
		config->src_addr = slave;
	else
		config->dst_addr = slave;
	if (chan->non_list) {
		config->peripheral_config = &chan->non_list;
		config->peripheral_size = sizeof(chan->non_list);
	}
}

int dmac_config_chan(struct dmac_chan *chan, u64 slave)
{
	struct dma_slave_config config;

	dmac_fill_config(chan, slave, &config);
	return dmaengine_slave_config(chan->chan, &config);
}

#ifdef HAVE_PREP_CONFIG_SG
static struct dma_async_tx_descriptor *
dmac_prep_combined(struct dmac_chan *chan, struct scatterlist *sg, unsigned int nents,
		   struct dma_slave_config *config)
{
	return dmaengine_prep_config_sg_safe(chan->chan, sg, nents, chan->dir, DMA_PREP_INTERRUPT,
					     config);
}
#else
static struct dma_async_tx_descriptor *
dmac_prep_combined(struct dmac_chan *chan, struct scatterlist *sg, unsigned int nents,
		   struct dma_slave_config *config)
{
	return NULL;
}
#endif

/* Without a slave address the channel's configuration stays as it is. */
struct dma_async_tx_descriptor *dmac_prep(struct dmac_chan *chan, struct scatterlist *sg,
					  unsigned int nents, const u64 *slave)
{
	struct dma_async_tx_descriptor *tx = NULL;
	struct dma_slave_config config;
	unsigned long flags;

	if (!slave)
		return dmaengine_prep_slave_sg(chan->chan, sg, nents, chan->dir,
					       DMA_PREP_INTERRUPT);
	dmac_fill_config(chan, *slave, &config);
	if (chan->run->cfg.combined)
		return dmac_prep_combined(chan, sg, nents, &config);
	spin_lock_irqsave(&chan->prep_lock, flags);
	if (!dmaengine_slave_config(chan->chan, &config))
		tx = dmaengine_prep_slave_sg(chan->chan, sg, nents, chan->dir, DMA_PREP_INTERRUPT);
	spin_unlock_irqrestore(&chan->prep_lock, flags);
	return tx;
}

// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * The dmaengine provider: what clients call.
 *
 * A client of the stock dw-edma finds the same things: a channel moves data one way, slave
 * addresses are CPU physical addresses of the device's BAR, chan->private is the channel's struct
 * dw_edma_region, and HDMA native takes an int in peripheral_config (not 0: without a list).
 */
#include <linux/dma-mapping.h>

#include "channel.h"

static_assert(DMA_MEM_TO_DEV == 1);
static_assert(DMA_DEV_TO_MEM == 2);
static_assert(DMA_TRANS_NOERROR == 0);
static_assert(DMA_TRANS_READ_FAILED == 1);
static_assert(DMA_TRANS_WRITE_FAILED == 2);
static_assert(DMA_TRANS_ABORTED == 3);

static void tombolo_caps(struct dma_chan *dchan, struct dma_slave_caps *caps)
{
	caps->directions = BIT(tombolo_direction(to_tombolo_chan(dchan)));
}

static int tombolo_config(struct dma_chan *dchan, struct dma_slave_config *config)
{
	struct tombolo_chan *chan = to_tombolo_chan(dchan);
	struct tombolo_slave slave;
	unsigned long flags;
	int err;

	err = tombolo_slave(chan, config, &slave);
	if (err)
		return err;
	spin_lock_irqsave(&chan->lock, flags);
	err = chan->rust ? tombolo_edma_chan_configure(chan->rust, &slave) : -ENXIO;
	spin_unlock_irqrestore(&chan->lock, flags);
	return err;
}

#ifndef TOMBOLO_HAVE_PREP_CONFIG_SG
static struct dma_async_tx_descriptor *
tombolo_prep_slave_sg(struct dma_chan *dchan, struct scatterlist *sgl, unsigned int sg_len,
		      enum dma_transfer_direction direction, unsigned long flags, void *context)
{
	return tombolo_prep_config_sg(dchan, sgl, sg_len, direction, flags, NULL);
}
#endif

dma_cookie_t tombolo_tx_submit(struct dma_async_tx_descriptor *tx)
{
	struct tombolo_chan *chan = to_tombolo_chan(tx->chan);
	struct tombolo_desc *desc = container_of(tx, struct tombolo_desc, tx);
	dma_cookie_t cookie = -ENXIO;
	unsigned long flags;

	spin_lock_irqsave(&chan->lock, flags);
	if (likely(chan->rust && !chan->edma->dead && !chan->terminate_later))
		cookie = tombolo_edma_chan_submit(chan->rust, desc->prepared, &desc->cookie);
	if (likely(!cookie)) {
		cookie = tombolo_cookie_assign(tx);
		tombolo_queue_push(&chan->pending, desc);
	} else {
		tombolo_desc_put(chan, desc);
	}
	spin_unlock_irqrestore(&chan->lock, flags);
	return cookie;
}

static void tombolo_issue_pending(struct dma_chan *dchan)
{
	struct tombolo_chan *chan = to_tombolo_chan(dchan);
	struct tombolo_edma *edma = chan->edma;
	unsigned long flags;

	spin_lock_irqsave(&chan->lock, flags);
	if (chan->rust && !edma->dead) {
		if (unlikely(edma->away)) {
			chan->issue_later = true;
		} else {
			if (unlikely(tombolo_edma_chan_issue(chan->rust)))
				tasklet_schedule(&chan->bottom_half);
			tombolo_watch(edma);
		}
	}
	spin_unlock_irqrestore(&chan->lock, flags);
}

static enum dma_status tombolo_tx_status(struct dma_chan *dchan, dma_cookie_t cookie,
					 struct dma_tx_state *state)
{
	struct tombolo_chan *chan = to_tombolo_chan(dchan);
	struct tombolo_status now = {};
	struct tombolo_desc *desc;
	enum dma_status status;
	unsigned long flags;

	spin_lock_irqsave(&chan->lock, flags);
	status = dma_async_is_complete(cookie, dchan->completed_cookie, dchan->cookie);
	if (state) {
		state->last = dchan->completed_cookie;
		state->used = dchan->cookie;
		state->in_flight_bytes = 0;
	}
	desc = status == DMA_COMPLETE ? NULL : chan->pending.head;
	for (; desc; desc = desc->next) {
		if (desc->tx.cookie != cookie)
			continue;
		if (chan->rust)
			tombolo_edma_chan_status(chan->rust, desc->cookie, &now);
		else
			now.residue = desc->result.residue;
		break;
	}
	spin_unlock_irqrestore(&chan->lock, flags);
	if (state)
		state->residue = now.residue;
	return now.paused ? DMA_PAUSED : status;
}

static int tombolo_pause(struct dma_chan *dchan)
{
	struct tombolo_chan *chan = to_tombolo_chan(dchan);
	unsigned long flags;
	int err = -ENXIO;

	spin_lock_irqsave(&chan->lock, flags);
	if (chan->rust) {
		err = tombolo_edma_chan_pause(chan->rust);
		/* It stays paused after a suspend. */
		chan->held = false;
	}
	spin_unlock_irqrestore(&chan->lock, flags);
	return err;
}

static int tombolo_resume(struct dma_chan *dchan)
{
	struct tombolo_chan *chan = to_tombolo_chan(dchan);
	unsigned long flags;
	int err = -ENXIO;

	spin_lock_irqsave(&chan->lock, flags);
	if (chan->rust) {
		err = 0;
		if (chan->edma->away)
			chan->held = true;
		else
			err = tombolo_edma_chan_resume(chan->rust);
		tombolo_watch(chan->edma);
	}
	spin_unlock_irqrestore(&chan->lock, flags);
	return err;
}

/* Their cookies are complete, nobody is told, and what has finished before is told all the same. */
static int tombolo_terminate_all(struct dma_chan *dchan)
{
	struct tombolo_chan *chan = to_tombolo_chan(dchan);
	struct tombolo_queue dropped;
	struct tombolo_desc *desc;
	unsigned long flags;

	tombolo_queue_init(&dropped);
	spin_lock_irqsave(&chan->lock, flags);
	if (chan->rust) {
		tombolo_collect_finished(chan);
		chan->held = false;
		chan->issue_later = false;
		if (unlikely(chan->edma->cut_off))
			chan->terminate_later = true;
		else
			tombolo_edma_chan_terminate(chan->rust);
	}
	/* Also of a device that is gone: who was about to tell them finds nothing. */
	while ((desc = tombolo_queue_pop(&chan->pending))) {
		tombolo_cookie_complete(&desc->tx);
		tombolo_queue_push(&dropped, desc);
	}
	if (chan->done.head)
		tasklet_schedule(&chan->bottom_half);
	spin_unlock_irqrestore(&chan->lock, flags);
	while ((desc = tombolo_queue_pop(&dropped))) {
		dma_descriptor_unmap(&desc->tx);
		llist_add(&desc->returned, &chan->returned);
	}
	/* A device that is gone has nothing to stop. */
	return 0;
}

static void tombolo_synchronize(struct dma_chan *dchan)
{
	struct tombolo_chan *chan = to_tombolo_chan(dchan);

	if (!tombolo_wait(chan, tombolo_edma_chan_is_terminated, 5000))
		pci_warn(chan->edma->pdev, "%s channel %u does not stop\n",
			 chan->kind ? "read" : "write", chan->index);
	tasklet_kill(&chan->bottom_half);
}

static int tombolo_alloc_chan(struct dma_chan *dchan)
{
	return tombolo_chan_open(to_tombolo_chan(dchan));
}

static void tombolo_free_chan(struct dma_chan *dchan)
{
	tombolo_terminate_all(dchan);
	tombolo_synchronize(dchan);
	tombolo_chan_close(to_tombolo_chan(dchan));
}

/* Nobody holds a channel any more, and the device is unregistered. Under the core's list mutex. */
static void tombolo_release(struct dma_device *dma)
{
	struct tombolo_edma *edma = container_of(dma, struct tombolo_edma, dma);

	queue_work(tombolo_release_wq, &edma->release);
}

static bool tombolo_no_channel(struct dma_chan *chan, void *unused)
{
	return false;
}

/*
 * Returns when whoever is inside of dmaengine's list mutex now has left it. The mutex is private to
 * the core, but a request that takes no channel goes through it.
 */
void tombolo_dmaengine_barrier(void)
{
	dma_cap_mask_t mask;

	dma_cap_zero(mask);
	dma_cap_set(DMA_SLAVE, mask);
	WARN_ON_ONCE(__dma_request_channel(&mask, tombolo_no_channel, NULL, NULL));
}

int tombolo_dmaengine_init(struct tombolo_edma *edma)
{
	struct dma_device *dma = &edma->dma;

	dma_cap_set(DMA_SLAVE, dma->cap_mask);
	dma_cap_set(DMA_PRIVATE, dma->cap_mask);
	if (edma->engine.flags & TOMBOLO_ENGINE_HAS_LISTS)
		dma_cap_set(DMA_CYCLIC, dma->cap_mask);
	dma->dev = &edma->pdev->dev;
	dma->directions = BIT(DMA_DEV_TO_MEM) | BIT(DMA_MEM_TO_DEV);
	/* As the stock driver says. The engine moves bytes. */
	dma->src_addr_widths = BIT(DMA_SLAVE_BUSWIDTH_4_BYTES);
	dma->dst_addr_widths = BIT(DMA_SLAVE_BUSWIDTH_4_BYTES);
	dma->residue_granularity = DMA_RESIDUE_GRANULARITY_DESCRIPTOR;
	dma->device_alloc_chan_resources = tombolo_alloc_chan;
	dma->device_free_chan_resources = tombolo_free_chan;
	dma->device_caps = tombolo_caps;
	dma->device_config = tombolo_config;
	dma->device_pause = tombolo_pause;
	dma->device_resume = tombolo_resume;
	dma->device_terminate_all = tombolo_terminate_all;
	dma->device_synchronize = tombolo_synchronize;
	dma->device_issue_pending = tombolo_issue_pending;
	dma->device_tx_status = tombolo_tx_status;
#ifdef TOMBOLO_HAVE_PREP_CONFIG_SG
	dma->device_prep_config_sg = tombolo_prep_config_sg;
#else
	dma->device_prep_slave_sg = tombolo_prep_slave_sg;
#endif
	dma->device_prep_dma_cyclic = tombolo_prep_cyclic;
	dma->device_release = tombolo_release;
	dma_set_max_seg_size(dma->dev, U32_MAX);
	return dma_async_device_register(dma);
}

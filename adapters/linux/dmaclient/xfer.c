// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * One transfer: mapped, prepared, submitted, and told of by a callback, once.
 *
 * It is unmapped in the callback: when a provider is unbound all callbacks have run before its
 * remove() returns, and after that nobody may use its device for the DMA API.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/dma-mapping.h>
#include <linux/slab.h>

#include "dmaclient.h"

/* Submissions until a ticket is used again. */
#define DMAC_TICKETS 1024
/* A callback that is on its way when its cookie is complete has so many milliseconds. */
#define DMAC_GRACE_MS 100

int dmac_ring_init(struct dmac_ring *ring)
{
	ring->next = 0;
	ring->tickets = kvcalloc(DMAC_TICKETS, sizeof(*ring->tickets), GFP_KERNEL);
	return ring->tickets ? 0 : -ENOMEM;
}

void dmac_ring_free(struct dmac_ring *ring)
{
	kvfree(ring->tickets);
	ring->tickets = NULL;
}

/* Ordered after what the other side did before it changed. */
static bool dmac_ticket_live(const struct dmac_ticket *ticket)
{
	return smp_load_acquire(&ticket->live); /* pairs with dmac_ticket_set() */
}

void dmac_ticket_set(struct dmac_ticket *ticket, bool live)
{
	smp_store_release(&ticket->live, live); /* pairs with dmac_ticket_live() */
}

static struct dmac_ticket *dmac_ticket_get(struct dmac_ring *ring)
{
	struct dmac_ticket *ticket;
	unsigned int i;

	for (i = 0; i < DMAC_TICKETS; i++) {
		ticket = &ring->tickets[ring->next++ % DMAC_TICKETS];
		if (dmac_ticket_live(ticket))
			continue;
		atomic_set(&ticket->calls, 0);
		ticket->terminated = false;
		return ticket;
	}
	return NULL;
}

int dmac_xfer_init(struct dmac_xfer *xfer, struct dmac_chan *chan, struct dmac_ring *ring,
		   size_t max_len, unsigned int max_sg)
{
	xfer->chan = chan;
	xfer->ring = ring;
	init_completion(&xfer->done);
	return dmac_buf_init(&xfer->buf, max_len, max_sg);
}

bool dmac_xfer_live(const struct dmac_xfer *xfer)
{
	return xfer->ticket && dmac_ticket_live(xfer->ticket);
}

static enum dma_data_direction dmac_map_dir(const struct dmac_chan *chan)
{
	return chan->dir == DMA_MEM_TO_DEV ? DMA_TO_DEVICE : DMA_FROM_DEVICE;
}

int dmac_xfer_map(struct dmac_xfer *xfer)
{
	struct dmac_chan *chan = xfer->chan;

	/* No DMA API for a device whose driver is gone. */
	xfer->mapped = READ_ONCE(chan->run->dev->driver) ?
			       dma_map_sg(chan->map_dev, xfer->buf.sg, xfer->buf.nents,
					  dmac_map_dir(chan)) : 0;
	if (xfer->mapped)
		return 0;
	atomic64_inc(&chan->run->stats.unmapped);
	return -ENOMEM;
}

void dmac_xfer_unmap(struct dmac_xfer *xfer)
{
	if (!xfer->mapped)
		return;
	dma_unmap_sg(xfer->chan->map_dev, xfer->buf.sg, xfer->buf.nents,
		     dmac_map_dir(xfer->chan));
	xfer->mapped = 0;
}

/* When the channels are released: whatever is in flight now gets no callback any more. */
void dmac_xfer_free(struct dmac_xfer *xfer)
{
	struct dmac_stats *stats;

	if (!xfer->chan)
		return;
	stats = &xfer->chan->run->stats;
	if (dmac_xfer_live(xfer) && !xfer->ticket->terminated)
		atomic64_inc(&stats->never);
	if (xfer->mapped && !READ_ONCE(xfer->chan->run->dev->driver)) {
		/* It cannot be unmapped without a driver, and the device may still reach it. */
		atomic64_inc(&stats->leaked);
		return;
	}
	dmac_xfer_unmap(xfer);
	dmac_buf_free(&xfer->buf);
}

static void dmac_callback(void *param, const struct dmaengine_result *result)
{
	struct dmac_ticket *ticket = param;
	struct dmac_xfer *xfer = ticket->xfer;
	struct dmac_stats *stats = &xfer->chan->run->stats;

	if (unlikely(atomic_inc_return(&ticket->calls) != 1)) {
		atomic64_inc(&stats->twice);
		return;
	}
	if (unlikely(ticket->terminated)) {
		atomic64_inc(&stats->terminated_told);
		dmac_ticket_set(ticket, false);
		return;
	}
	xfer->result = result ? result->result : DMA_TRANS_NOERROR;
	if (likely(xfer->result == DMA_TRANS_NOERROR)) {
		atomic64_inc(&stats->ok);
		atomic64_add(xfer->buf.len, &stats->bytes);
	} else {
		atomic64_inc(&stats->error);
	}
	if (!xfer->keep_mapped || xfer->result != DMA_TRANS_NOERROR)
		dmac_xfer_unmap(xfer);
	dmac_ticket_set(ticket, false);
	if (xfer->ended)
		xfer->ended(xfer);
	else
		complete(&xfer->done);
}

/* Of a mapped transfer; not issued yet. */
struct dmac_ticket *dmac_xfer_submit(struct dmac_xfer *xfer, const u64 *slave)
{
	struct dmac_stats *stats = &xfer->chan->run->stats;
	struct dma_async_tx_descriptor *tx;
	struct dmac_ticket *ticket;

	ticket = dmac_ticket_get(xfer->ring);
	tx = ticket ? dmac_prep(xfer->chan, xfer->buf.sg, xfer->mapped, slave) : NULL;
	if (unlikely(!tx)) {
		atomic64_inc(&stats->no_desc);
		return NULL;
	}
	ticket->xfer = xfer;
	dmac_ticket_set(ticket, true);
	xfer->ticket = ticket;
	tx->callback_result = dmac_callback;
	tx->callback_param = ticket;
	xfer->cookie = dmaengine_submit(tx);
	if (unlikely(dma_submit_error(xfer->cookie))) {
		atomic64_inc(&stats->refused);
		dmac_ticket_set(ticket, false);
		return NULL;
	}
	atomic64_inc(&stats->submitted);
	return ticket;
}

/* Maps and submits what its buffer holds. */
int dmac_xfer_start(struct dmac_xfer *xfer, u64 slave)
{
	int err;

	err = dmac_xfer_map(xfer);
	if (err)
		return err;
	reinit_completion(&xfer->done);
	if (dmac_xfer_submit(xfer, &slave))
		return 0;
	dmac_xfer_unmap(xfer);
	return -EIO;
}

static bool dmac_told_within(struct dmac_xfer *xfer, unsigned long limit)
{
	return wait_for_completion_timeout(&xfer->done, limit);
}

static unsigned long dmac_limit(const struct dmac_run *run)
{
	long left;

	if (!READ_ONCE(run->given_up))
		return dmac_timeout(run);
	left = run->deadline - jiffies;
	return max(left, 1L);
}

/* Not for ever: what does not come is counted. 0 if a callback came, with whatever result. */
int dmac_xfer_wait(struct dmac_xfer *xfer)
{
	struct dmac_run *run = xfer->chan->run;
	struct dma_chan *dchan = xfer->chan->chan;

	if (dmac_told_within(xfer, dmac_limit(run)))
		return 0;
	if (dma_async_is_tx_complete(dchan, xfer->cookie, NULL, NULL) == DMA_COMPLETE) {
		if (dmac_told_within(xfer, msecs_to_jiffies(DMAC_GRACE_MS)))
			return 0;
		atomic64_inc(&run->stats.silent);
		return -ETIMEDOUT;
	}
	/* A provider that stopped at an error may go on with what is left in its queue. */
	dma_async_issue_pending(dchan);
	if (dmac_told_within(xfer, dmac_limit(run))) {
		atomic64_inc(&run->stats.nudges);
		return 0;
	}
	atomic64_inc(&run->stats.timeouts);
	return -ETIMEDOUT;
}

// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * hold: channels are held, with transfers in flight, queued and not yet issued, until the run is
 * stopped. Meanwhile somebody takes the device away. Each transfer must be told of once.
 *
 * After the first error of a channel nothing more is submitted to it.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/slab.h>

#include "dmaclient.h"

struct dmac_held {
	struct dmac_chan *chan;
	struct dmac_window window;
	struct dmac_ring ring;
	struct rnd_state rnd;
	struct dmac_xfer *xfers;
	size_t most;
};

struct dmac_holding {
	unsigned int nr;
	struct dmac_held held[];
};

/* In the callback. */
static void dmac_held_ended(struct dmac_xfer *xfer)
{
	if (xfer->result != DMA_TRANS_NOERROR)
		WRITE_ONCE(xfer->chan->failed, true);
	wake_up(&xfer->chan->run->wq);
}

static int dmac_held_submit(struct dmac_held *held, struct dmac_xfer *xfer)
{
	unsigned int align = held->chan->align;
	size_t len = align * (1 + dmac_below(&held->rnd, held->most / align));
	int err;

	dmac_buf_scatter(&xfer->buf, &held->rnd, held->chan, len);
	err = dmac_xfer_start(xfer, held->window.addr);
	if (err)
		WRITE_ONCE(held->chan->failed, true);
	return err;
}

/* Submits what is idle, and issues all of it but the last. */
static void dmac_held_refill(struct dmac_held *held)
{
	unsigned int i, last = held->chan->run->cfg.depth - 1;

	for (i = 0; i <= last && !READ_ONCE(held->chan->failed); i++) {
		if (i == last)
			dma_async_issue_pending(held->chan->chan);
		if (!dmac_xfer_live(&held->xfers[i]) && dmac_held_submit(held, &held->xfers[i]))
			return;
	}
}

static bool dmac_held_idle(const struct dmac_held *held)
{
	unsigned int i;

	for (i = 0; i < held->chan->run->cfg.depth; i++)
		if (dmac_xfer_live(&held->xfers[i]))
			return false;
	return true;
}

static bool dmac_all_idle(const struct dmac_holding *all)
{
	unsigned int i;

	for (i = 0; i < all->nr; i++)
		if (!dmac_held_idle(&all->held[i]))
			return false;
	return true;
}

static bool dmac_some_room(const struct dmac_holding *all)
{
	unsigned int i, k;

	for (i = 0; i < all->nr; i++) {
		if (READ_ONCE(all->held[i].chan->failed))
			continue;
		for (k = 0; k < all->held[i].chan->run->cfg.depth - 1; k++)
			if (!dmac_xfer_live(&all->held[i].xfers[k]))
				return true;
	}
	return false;
}

/* What has no callback in the end, though its cookie may be complete. */
static void dmac_count_missing(struct dmac_run *run, const struct dmac_holding *all)
{
	const struct dmac_xfer *xfer;
	unsigned int i, k;

	for (i = 0; i < all->nr; i++) {
		for (k = 0; k < run->cfg.depth; k++) {
			xfer = &all->held[i].xfers[k];
			if (!dmac_xfer_live(xfer))
				continue;
			if (dma_async_is_tx_complete(all->held[i].chan->chan, xfer->cookie, NULL,
						     NULL) == DMA_COMPLETE)
				atomic64_inc(&run->stats.silent);
			else
				atomic64_inc(&run->stats.timeouts);
		}
	}
}

static void dmac_hold_loop(struct dmac_run *run, struct dmac_holding *all)
{
	unsigned int i;

	while (!dmac_stopping(run)) {
		for (i = 0; i < all->nr; i++)
			dmac_held_refill(&all->held[i]);
		wait_event_timeout(run->wq, dmac_stopping(run) || dmac_some_room(all),
				   dmac_timeout(run));
	}
	for (i = 0; i < all->nr; i++)
		dma_async_issue_pending(all->held[i].chan->chan);
	if (!wait_event_timeout(run->wq, dmac_all_idle(all), dmac_timeout(run)))
		dmac_count_missing(run, all);
	if (run->cfg.request_again)
		dmac_request_again(run);
}

static int dmac_held_init(struct dmac_run *run, struct dmac_held *held, unsigned int nth)
{
	const struct dmac_config *cfg = &run->cfg;
	unsigned int i;
	int err;

	held->chan = &run->chans[nth];
	prandom_seed_state(&held->rnd, run->seed + nth * 0x9e3779b9ULL);
	if (run->area.size)
		err = dmac_window(run, NULL, nth, run->nr_chans, &held->window);
	else
		err = dmac_window(run, held->chan, 0, 1, &held->window);
	if (err)
		return err;
	held->most = min_t(u64, held->window.size, cfg->max_len);
	held->most = min_t(u64, held->most, (u64)held->chan->max_sg * held->chan->max_seg);
	held->xfers = kcalloc(cfg->depth, sizeof(*held->xfers), GFP_KERNEL);
	if (!held->xfers || dmac_ring_init(&held->ring))
		return -ENOMEM;
	for (i = 0; i < cfg->depth; i++) {
		err = dmac_xfer_init(&held->xfers[i], held->chan, &held->ring, held->most,
				     cfg->max_sg);
		if (err)
			return err;
		held->xfers[i].ended = dmac_held_ended;
		memset(held->xfers[i].buf.mem, 0, held->xfers[i].buf.size);
	}
	return 0;
}

static void dmac_hold_free(struct dmac_run *run)
{
	struct dmac_holding *all = run->state;
	unsigned int i, k;

	for (i = 0; i < all->nr; i++) {
		for (k = 0; all->held[i].xfers && k < run->cfg.depth; k++)
			dmac_xfer_free(&all->held[i].xfers[k]);
		kfree(all->held[i].xfers);
		dmac_ring_free(&all->held[i].ring);
	}
	kvfree(all);
}

void dmac_hold(struct dmac_run *run)
{
	struct dmac_holding *all;
	ktime_t begin;

	all = kvzalloc(struct_size(all, held, run->nr_chans), GFP_KERNEL);
	if (!all) {
		run->failure = "out of memory";
		return;
	}
	run->state = all;
	run->free_state = dmac_hold_free;
	for (; all->nr < run->nr_chans; all->nr++) {
		if (!dmac_held_init(run, &all->held[all->nr], all->nr))
			continue;
		all->nr++;
		run->failure = run->failure ?: "out of memory";
		return;
	}
	begin = ktime_get();
	dmac_hold_loop(run, all);
	run->ns = ktime_to_ns(ktime_sub(ktime_get(), begin));
}

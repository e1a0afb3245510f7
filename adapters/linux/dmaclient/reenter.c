// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * reenter: each channel's next transfer is prepared, submitted and issued by the callback of the
 * one before; every Nth time the callback also starts one that it terminates at once.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/slab.h>

#include "dmaclient.h"

struct dmac_chain {
	struct dmac_xfer xfer;
	struct dmac_ring ring;
	u64 slave;
	/* Callbacks so far: the runner sees by it that the chain goes on. */
	unsigned int told;
	struct completion done;
};

struct dmac_chains {
	unsigned int nr;
	struct dmac_chain chains[];
};

static bool dmac_chain_next(struct dmac_chain *chain)
{
	if (!dmac_xfer_submit(&chain->xfer, &chain->slave))
		return false;
	dma_async_issue_pending(chain->xfer.chan->chan);
	return true;
}

/* If it finished first its callback comes: dmac_callback() knows it by its ticket. */
static bool dmac_chain_terminate_one(struct dmac_chain *chain)
{
	struct dmac_xfer *xfer = &chain->xfer;
	struct dmac_stats *stats = &xfer->chan->run->stats;
	struct dmac_ticket *ticket;

	ticket = dmac_xfer_submit(xfer, &chain->slave);
	if (!ticket)
		return false;
	ticket->terminated = true;
	atomic64_inc(&stats->terminated);
	dma_async_issue_pending(xfer->chan->chan);
	if (dmaengine_terminate_async(xfer->chan->chan)) {
		atomic64_inc(&stats->refused);
		return false;
	}
	dmac_ticket_set(ticket, false);
	return true;
}

/* In the callback. */
static void dmac_chain_ended(struct dmac_xfer *xfer)
{
	struct dmac_chain *chain = xfer->context;
	const struct dmac_config *cfg = &xfer->chan->run->cfg;
	unsigned int told = chain->told + 1;
	bool more;

	WRITE_ONCE(chain->told, told);
	more = xfer->result == DMA_TRANS_NOERROR && told < cfg->transfers &&
	       !dmac_stopping(xfer->chan->run);
	if (more && cfg->terminate_every && told % cfg->terminate_every == 0)
		more = dmac_chain_terminate_one(chain);
	if (more && dmac_chain_next(chain))
		return;
	/* Now, as the provider may be leaving: it waits for callbacks, not for the runner. */
	if (!dmac_xfer_live(xfer))
		dmac_xfer_unmap(xfer);
	complete(&chain->done);
}

/* As long as it makes progress. */
static void dmac_chain_watch(struct dmac_chain *chain)
{
	struct dmac_run *run = chain->xfer.chan->run;
	unsigned int told = READ_ONCE(chain->told), before;

	do {
		if (wait_for_completion_timeout(&chain->done, dmac_timeout(run)))
			return;
		before = told;
		told = READ_ONCE(chain->told);
	} while (told != before);
	if (dma_async_is_tx_complete(chain->xfer.chan->chan, chain->xfer.cookie, NULL, NULL) ==
	    DMA_COMPLETE)
		atomic64_inc(&run->stats.silent);
	else
		atomic64_inc(&run->stats.timeouts);
	pr_err("channel %u stands still after %u callbacks\n",
	       (unsigned int)(chain->xfer.chan - run->chans), told);
}

static int dmac_chain_init(struct dmac_run *run, struct dmac_chain *chain, unsigned int nth)
{
	const struct dmac_config *cfg = &run->cfg;
	struct dmac_chan *chan = &run->chans[nth];
	struct dmac_window window;
	struct rnd_state rnd;
	size_t len;
	int err;

	if (run->area.size)
		err = dmac_window(run, NULL, nth, run->nr_chans, &window);
	else
		err = dmac_window(run, chan, 0, 1, &window);
	if (err)
		return err;
	init_completion(&chain->done);
	chain->slave = window.addr;
	len = min_t(u64, window.size, cfg->max_len);
	len = rounddown(min_t(u64, len, (u64)chan->max_sg * chan->max_seg), chan->align);
	if (dmac_ring_init(&chain->ring))
		return -ENOMEM;
	err = dmac_xfer_init(&chain->xfer, chan, &chain->ring, len, cfg->max_sg);
	if (err)
		return err;
	prandom_seed_state(&rnd, run->seed + nth);
	dmac_buf_scatter(&chain->xfer.buf, &rnd, chan, len);
	memset(chain->xfer.buf.mem, 0, chain->xfer.buf.size);
	chain->xfer.ended = dmac_chain_ended;
	chain->xfer.context = chain;
	chain->xfer.keep_mapped = true;
	return dmac_xfer_map(&chain->xfer);
}

static void dmac_reenter_free(struct dmac_run *run)
{
	struct dmac_chains *all = run->state;
	unsigned int i;

	for (i = 0; i < all->nr; i++) {
		dmac_xfer_free(&all->chains[i].xfer);
		dmac_ring_free(&all->chains[i].ring);
	}
	kvfree(all);
}

void dmac_reenter(struct dmac_run *run)
{
	struct dmac_chains *all;
	unsigned int i;
	ktime_t begin;

	all = kvzalloc(struct_size(all, chains, run->nr_chans), GFP_KERNEL);
	if (!all) {
		run->failure = "out of memory";
		return;
	}
	run->state = all;
	run->free_state = dmac_reenter_free;
	for (; all->nr < run->nr_chans; all->nr++) {
		if (!dmac_chain_init(run, &all->chains[all->nr], all->nr))
			continue;
		all->nr++;
		run->failure = run->failure ?: "out of memory";
		return;
	}
	begin = ktime_get();
	for (i = 0; i < all->nr; i++)
		if (!dmac_chain_next(&all->chains[i]))
			complete(&all->chains[i].done);
	for (i = 0; i < all->nr; i++)
		dmac_chain_watch(&all->chains[i]);
	run->ns = ktime_to_ns(ktime_sub(ktime_get(), begin));
}

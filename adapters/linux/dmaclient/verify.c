// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * verify: random data goes to the device's memory and back, several transfers at a time, from
 * several threads, and every byte is compared.
 *
 * A round trip is three transfers: one fills a piece of device memory, one overwrites the middle of
 * it, one reads the whole piece back. So the neighbours of what was written are compared too.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/delay.h>
#include <linux/err.h>
#include <linux/jiffies.h>
#include <linux/mm.h>
#include <linux/sched.h>
#include <linux/slab.h>

#include "dmaclient.h"

enum { DMAC_FILL, DMAC_WRITE, DMAC_READ, DMAC_STEPS };

struct dmac_slot {
	struct dmac_xfer steps[DMAC_STEPS];
	bool started[DMAC_STEPS];
	bool good;
	u64 addr;
	size_t size;
	/* This time: where the piece is, how long, and what is in it in the end. */
	u64 at;
	size_t before;
	size_t len;
	size_t span;
	u8 *image;
};

struct dmac_worker {
	struct dmac_run *run;
	struct dmac_chan *out;
	struct dmac_chan *in;
	struct dmac_ring ring;
	struct dmac_slot *slots;
	struct rnd_state rnd;
	unsigned int align;
	u64 transfers;
	struct task_struct *task;
	struct completion done;
};

struct dmac_workers {
	unsigned int nr;
	struct dmac_worker workers[];
};

static size_t dmac_random_len(struct dmac_worker *worker, size_t most)
{
	return worker->align * (1 + dmac_below(&worker->rnd, most / worker->align));
}

/* Fits the slot, the host memory and the number of pieces. */
static void dmac_plan(struct dmac_worker *worker, struct dmac_slot *slot)
{
	const struct dmac_config *cfg = &worker->run->cfg;
	unsigned int align = worker->align;
	size_t room = slot->size, guard = rounddown(cfg->guard, align);
	size_t pieces = (size_t)min(worker->out->max_sg, worker->in->max_sg) *
			min(worker->out->max_seg, worker->in->max_seg);

	room = rounddown(min(room, pieces), align);
	guard = min(guard, rounddown(room / 4, align));
	slot->len = dmac_random_len(worker, min(room - 2 * guard, cfg->max_len));
	slot->before = guard;
	slot->span = slot->len + 2 * guard;
	slot->at = slot->addr +
		   align * dmac_below(&worker->rnd, (slot->size - slot->span) / align + 1);
}

/* -EAGAIN as often as it may be for want of memory. */
static int dmac_start_patiently(struct dmac_xfer *xfer, u64 slave)
{
	int tries, err = 0;

	for (tries = 0; tries < 5; tries++) {
		err = dmac_xfer_start(xfer, slave);
		if (!err || dmac_stopping(xfer->chan->run))
			break;
		usleep_range(1000, 2000);
	}
	return err;
}

static void dmac_step(struct dmac_worker *worker, struct dmac_slot *slot, int step, u64 slave)
{
	struct dmac_xfer *xfer = &slot->steps[step];

	slot->started[step] = !dmac_start_patiently(xfer, slave);
	if (!slot->started[step])
		slot->good = false;
	else if (dmac_below(&worker->rnd, 4) == 0)
		dma_async_issue_pending(xfer->chan->chan);
}

static void dmac_send(struct dmac_worker *worker, struct dmac_slot *slot)
{
	struct dmac_buf *fill = &slot->steps[DMAC_FILL].buf, *write = &slot->steps[DMAC_WRITE].buf;

	dmac_plan(worker, slot);
	slot->good = true;
	prandom_bytes_state(&worker->rnd, slot->image, slot->span);
	dmac_buf_scatter(fill, &worker->rnd, worker->out, slot->span);
	dmac_buf_load(fill, slot->image);
	dmac_step(worker, slot, DMAC_FILL, slot->at);

	prandom_bytes_state(&worker->rnd, slot->image + slot->before, slot->len);
	dmac_buf_scatter(write, &worker->rnd, worker->out, slot->len);
	dmac_buf_load(write, slot->image + slot->before);
	dmac_step(worker, slot, DMAC_WRITE, slot->at + slot->before);
}

static void dmac_receive(struct dmac_worker *worker, struct dmac_slot *slot)
{
	struct dmac_buf *read = &slot->steps[DMAC_READ].buf;

	dmac_buf_scatter(read, &worker->rnd, worker->in, slot->span);
	dmac_buf_poison(read, slot->image);
	dmac_step(worker, slot, DMAC_READ, slot->at);
}

static void dmac_give_up(struct dmac_run *run, const char *why)
{
	if (run->failure)
		return;
	run->failure = why;
	run->deadline = jiffies + dmac_timeout(run);
	WRITE_ONCE(run->given_up, true);
	WRITE_ONCE(run->stop, true);
}

/* A transfer whose callback did not come ends the run: its memory is not ours yet. */
static void dmac_collect(struct dmac_worker *worker, struct dmac_slot *slot, int step)
{
	struct dmac_xfer *xfer = &slot->steps[step];
	struct dmac_run *run = worker->run;

	if (!slot->started[step])
		return;
	slot->started[step] = false;
	if (dmac_xfer_wait(xfer)) {
		dmac_give_up(run, "a callback did not come");
		slot->good = false;
		return;
	}
	worker->transfers++;
	if (xfer->result != DMA_TRANS_NOERROR)
		slot->good = false;
}

static void dmac_compare(struct dmac_worker *worker, struct dmac_slot *slot)
{
	struct dmac_run *run = worker->run;
	size_t wrong;

	if (!slot->good)
		return;
	atomic64_inc(&run->stats.round_trips);
	wrong = dmac_buf_check(&slot->steps[DMAC_READ].buf, slot->image);
	if (!wrong)
		return;
	atomic64_add(wrong, &run->stats.mismatches);
	pr_err_ratelimited("%zu of %zu bytes at %#llx differ, %u pieces out, %u in\n", wrong,
			   slot->span, slot->at, slot->steps[DMAC_WRITE].buf.nents,
			   slot->steps[DMAC_READ].buf.nents);
}

static bool dmac_too_bad(struct dmac_run *run)
{
	const struct dmac_stats *stats = &run->stats;

	return dmac_read(&stats->error) + dmac_read(&stats->no_desc) + dmac_read(&stats->refused) +
	       dmac_read(&stats->unmapped) >= run->cfg.max_errors;
}

static void dmac_round(struct dmac_worker *worker)
{
	struct dmac_run *run = worker->run;
	unsigned int i, depth = run->cfg.depth;

	for (i = 0; i < depth; i++)
		dmac_send(worker, &worker->slots[i]);
	dma_async_issue_pending(worker->out->chan);
	for (i = 0; i < depth; i++) {
		dmac_collect(worker, &worker->slots[i], DMAC_FILL);
		dmac_collect(worker, &worker->slots[i], DMAC_WRITE);
	}
	for (i = 0; i < depth; i++)
		if (worker->slots[i].good)
			dmac_receive(worker, &worker->slots[i]);
	dma_async_issue_pending(worker->in->chan);
	for (i = 0; i < depth; i++) {
		dmac_collect(worker, &worker->slots[i], DMAC_READ);
		dmac_compare(worker, &worker->slots[i]);
	}
	if (dmac_too_bad(run))
		dmac_give_up(run, "too many errors");
}

static int dmac_worker_thread(void *param)
{
	struct dmac_worker *worker = param;

	while (!dmac_stopping(worker->run) && worker->transfers < worker->run->cfg.transfers) {
		dmac_round(worker);
		cond_resched();
	}
	complete(&worker->done);
	return 0;
}

static int dmac_slot_init(struct dmac_worker *worker, struct dmac_slot *slot)
{
	const struct dmac_config *cfg = &worker->run->cfg;
	size_t most = min_t(size_t, slot->size, cfg->max_len + 2 * cfg->guard);
	unsigned int step;
	int err;

	slot->image = kvmalloc(most, GFP_KERNEL);
	if (!slot->image)
		return -ENOMEM;
	for (step = 0; step < DMAC_STEPS; step++) {
		err = dmac_xfer_init(&slot->steps[step],
				     step == DMAC_READ ? worker->in : worker->out, &worker->ring,
				     most, cfg->max_sg);
		if (err)
			return err;
	}
	return 0;
}

static int dmac_worker_init(struct dmac_worker *worker, const struct dmac_window *window)
{
	unsigned int i, depth = worker->run->cfg.depth;
	u64 size = rounddown(div_u64(window->size, depth), DMAC_GAP);
	int err;

	if (!size) {
		worker->run->failure = "too little device memory for so many threads and transfers";
		return -ENOSPC;
	}
	worker->align = max(worker->out->align, worker->in->align);
	worker->slots = kcalloc(depth, sizeof(*worker->slots), GFP_KERNEL);
	if (!worker->slots || dmac_ring_init(&worker->ring))
		return -ENOMEM;
	for (i = 0; i < depth; i++) {
		worker->slots[i].addr = window->addr + i * size;
		worker->slots[i].size = min_t(u64, size, SIZE_MAX);
		err = dmac_slot_init(worker, &worker->slots[i]);
		if (err)
			return err;
	}
	return 0;
}

/* So many threads for each pair; the memory is that of the channels of which there are more. */
static int dmac_worker_place(struct dmac_run *run, struct dmac_worker *worker, unsigned int nth,
			     unsigned int pairs)
{
	unsigned int nr_out = dmac_chans_of(run, DMA_MEM_TO_DEV);
	unsigned int nr_in = dmac_chans_of(run, DMA_DEV_TO_MEM);
	unsigned int threads = run->cfg.threads, pair = nth / threads;
	struct dmac_window window;
	int err;

	worker->run = run;
	init_completion(&worker->done);
	prandom_seed_state(&worker->rnd, run->seed + nth * 0x9e3779b9ULL);
	worker->out = dmac_chan_of(run, DMA_MEM_TO_DEV, pair % nr_out);
	worker->in = dmac_chan_of(run, DMA_DEV_TO_MEM, pair % nr_in);
	if (run->area.size)
		err = dmac_window(run, NULL, nth, pairs * threads, &window);
	else
		err = dmac_window(run, nr_out >= nr_in ? worker->out : worker->in, nth % threads,
				  threads, &window);
	return err ?: dmac_worker_init(worker, &window);
}

static void dmac_worker_free(struct dmac_worker *worker)
{
	unsigned int i, step;

	for (i = 0; worker->slots && i < worker->run->cfg.depth; i++) {
		for (step = 0; step < DMAC_STEPS; step++)
			dmac_xfer_free(&worker->slots[i].steps[step]);
		kvfree(worker->slots[i].image);
	}
	kfree(worker->slots);
	dmac_ring_free(&worker->ring);
}

static void dmac_verify_free(struct dmac_run *run)
{
	struct dmac_workers *all = run->state;
	unsigned int i;

	for (i = 0; i < all->nr; i++)
		dmac_worker_free(&all->workers[i]);
	kvfree(all);
}

static int dmac_workers_start(struct dmac_workers *all)
{
	struct task_struct *task;
	unsigned int i;

	for (i = 0; i < all->nr; i++) {
		task = dmac_thread_start(dmac_worker_thread, &all->workers[i], i);
		if (IS_ERR(task))
			return PTR_ERR(task);
		all->workers[i].task = task;
	}
	return 0;
}

/* They end by themselves: each wait of theirs does. */
static void dmac_workers_join(struct dmac_workers *all)
{
	unsigned int i;

	for (i = 0; i < all->nr; i++)
		if (all->workers[i].task)
			dmac_thread_join(all->workers[i].task, &all->workers[i].done);
}

void dmac_verify(struct dmac_run *run)
{
	unsigned int nr_out = dmac_chans_of(run, DMA_MEM_TO_DEV);
	unsigned int nr_in = dmac_chans_of(run, DMA_DEV_TO_MEM);
	unsigned int pairs = max(nr_out, nr_in);
	struct dmac_workers *all;
	unsigned int nr = pairs * run->cfg.threads;
	ktime_t begin;

	if (!nr_out || !nr_in) {
		run->failure = "verify needs a channel of each direction";
		return;
	}
	all = kvzalloc(struct_size(all, workers, nr), GFP_KERNEL);
	if (!all) {
		run->failure = "out of memory";
		return;
	}
	run->state = all;
	run->free_state = dmac_verify_free;
	for (; all->nr < nr; all->nr++) {
		if (!dmac_worker_place(run, &all->workers[all->nr], all->nr, pairs))
			continue;
		all->nr++;
		run->failure = run->failure ?: "out of memory";
		return;
	}
	run->workers = nr;
	begin = ktime_get();
	if (dmac_workers_start(all))
		dmac_give_up(run, "no thread to be had");
	dmac_workers_join(all);
	run->ns = ktime_to_ns(ktime_sub(ktime_get(), begin));
}

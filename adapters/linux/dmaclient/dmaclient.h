/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * tombolo_dmaclient: a slave client that loads a dmaengine provider and checks what it does.
 */
#ifndef TOMBOLO_DMACLIENT_H
#define TOMBOLO_DMACLIENT_H

#include <linux/atomic.h>
#include <linux/completion.h>
#include <linux/device.h>
#include <linux/dmaengine.h>
#include <linux/ktime.h>
#include <linux/prandom.h>
#include <linux/scatterlist.h>
#include <linux/spinlock.h>
#include <linux/types.h>
#include <linux/wait.h>

/* Bounds of the parameters. */
#define DMAC_MAX_CHANNELS 64
#define DMAC_MAX_THREADS 16
#define DMAC_MAX_DEPTH 32
#define DMAC_MAX_LEN (1024 * 1024)
#define DMAC_MAX_SG 1024
/* Bytes of guard, at most, before and after each piece of host memory. */
#define DMAC_GAP 64

#ifdef HAVE_PREP_CONFIG_SG
#define DMAC_CAN_COMBINE true
#else
#define DMAC_CAN_COMBINE false
#endif

enum dmac_mode {
	DMAC_VERIFY,
	DMAC_HOLD,
	DMAC_REENTER,
	DMAC_MEASURE,
	DMAC_IDLE,
};

/* The parameters; a run has its own copy. main.c says what each of them means. */
struct dmac_config {
	char device[32];
	char mode[16];
	char direction[16];
	unsigned int channels;
	unsigned int threads;
	unsigned int depth;
	unsigned int transfers;
	unsigned int max_len;
	unsigned int max_sg;
	unsigned int guard;
	unsigned int align;
	unsigned int seed;
	unsigned int timeout_ms;
	unsigned int max_errors;
	unsigned int combined;
	unsigned int non_list;
	unsigned int segments;
	unsigned int warmup;
	unsigned int duration_ms;
	unsigned int mark_begin;
	unsigned int mark_end;
	unsigned int terminate_every;
	unsigned int request_again;
	int data_bar;
	unsigned long long data_offset;
	unsigned long long data_size;
	unsigned long long data_address;
};

struct dmac_stats {
	atomic64_t round_trips;
	atomic64_t submitted;
	atomic64_t ok;
	atomic64_t error;		/* completed, with an error */
	atomic64_t twice;		/* a second callback */
	atomic64_t never;		/* no callback until the channel was released */
	atomic64_t terminated;		/* by us: no callback is due */
	atomic64_t terminated_told;	/* which had finished first, and got one all the same */
	atomic64_t no_desc;		/* prep gave none */
	atomic64_t refused;		/* submit gave a negative cookie */
	atomic64_t unmapped;		/* dma_map_sg() failed */
	atomic64_t timeouts;		/* waits that ended without a callback */
	atomic64_t silent;		/* the cookie was complete, and no callback came */
	atomic64_t nudges;		/* went on only after another issue_pending */
	atomic64_t mismatches;		/* bytes */
	atomic64_t bytes;		/* of completed transfers without an error */
	atomic64_t leaked;		/* buffers kept: the device has no driver now */
};

struct dmac_window {
	u64 addr;
	u64 size;
};

struct dmac_run;

struct dmac_chan {
	struct dmac_run *run;
	struct dma_chan *chan;
	struct device *map_dev;
	enum dma_transfer_direction dir;
	/* What chan->private names, or nothing. */
	struct dmac_window own;
	/* Lengths and addresses are multiples of it. */
	unsigned int align;
	unsigned int max_sg;
	unsigned int max_seg;
	/* One configuration and preparation at a time. */
	spinlock_t prep_lock;
	int non_list;
	/* A transfer failed: the provider may be on its way out, submit no more. */
	bool failed;
};

/*
 * One submission, and what a callback is given. It is used again only after many others, so that a
 * second callback is noticed as such.
 */
struct dmac_ticket {
	struct dmac_xfer *xfer;
	atomic_t calls;
	bool live;
	bool terminated;
};

struct dmac_ring {
	struct dmac_ticket *tickets;
	unsigned int next;
};

struct dmac_buf {
	u8 *mem;
	size_t size;
	/* The pieces of the transfer, in the order of their addresses, with guards between them. */
	struct scatterlist *sg;
	unsigned int max_sg;
	unsigned int nents;
	size_t len;
};

struct dmac_xfer {
	struct dmac_chan *chan;
	struct dmac_ring *ring;
	struct dmac_ticket *ticket;
	struct dmac_buf buf;
	/* 0: not mapped. */
	unsigned int mapped;
	/* The mapping lasts for many transfers. */
	bool keep_mapped;
	dma_cookie_t cookie;
	enum dmaengine_tx_result result;
	struct completion done;
	/* Runs in the callback, instead of completing done. */
	void (*ended)(struct dmac_xfer *xfer);
	void *context;
};

struct dmac_run {
	struct dmac_config cfg;
	enum dmac_mode mode;
	struct task_struct *task;
	struct completion ended;
	/* The provider's. */
	struct device *dev;
	char driver[32];
	struct dmac_chan *chans;
	unsigned int nr_chans;
	/* The mode's own, freed when the channels are gone. */
	void *state;
	void (*free_state)(struct dmac_run *run);
	/* Of the parameters; without a size each channel uses its own. */
	struct dmac_window area;
	struct dmac_stats stats;
	wait_queue_head_t wq;
	bool stop;
	/* A wait was in vain: the others share what is left until the deadline, in jiffies. */
	bool given_up;
	unsigned long deadline;
	/* Why there is nothing to report. */
	const char *failure;
	const char *again;
	bool compared;
	bool passed;
	u32 seed;
	unsigned int workers;
	unsigned int segments;
	unsigned int length;
	u64 ns;
};

static inline bool dmac_stopping(const struct dmac_run *run)
{
	return READ_ONCE(run->stop);
}

static inline unsigned long dmac_timeout(const struct dmac_run *run)
{
	return msecs_to_jiffies(run->cfg.timeout_ms);
}

static inline u64 dmac_read(const atomic64_t *count)
{
	return atomic64_read(count);
}

/* main.c */
struct task_struct *dmac_thread_start(int (*run)(void *), void *with, unsigned int nth);
void dmac_thread_join(struct task_struct *task, struct completion *done);

/* result.c */
int dmac_result_format(const struct dmac_run *run, bool running, char *to, size_t size);
void dmac_judge(struct dmac_run *run);

/* chan.c */
int dmac_chans_request(struct dmac_run *run);
void dmac_chans_terminate(struct dmac_run *run);
void dmac_chans_release(struct dmac_run *run);
void dmac_chans_forget(struct dmac_run *run);
void dmac_request_again(struct dmac_run *run);
unsigned int dmac_chans_of(struct dmac_run *run, enum dma_transfer_direction dir);
struct dmac_chan *dmac_chan_of(struct dmac_run *run, enum dma_transfer_direction dir,
			       unsigned int nth);
int dmac_window(struct dmac_run *run, const struct dmac_chan *chan, unsigned int nth,
		unsigned int of, struct dmac_window *window);
int dmac_config_chan(struct dmac_chan *chan, u64 slave);
struct dma_async_tx_descriptor *dmac_prep(struct dmac_chan *chan, struct scatterlist *sg,
					  unsigned int nents, const u64 *slave);

/* buf.c */
int dmac_buf_init(struct dmac_buf *buf, size_t max_len, unsigned int max_sg);
void dmac_buf_free(struct dmac_buf *buf);
void dmac_buf_scatter(struct dmac_buf *buf, struct rnd_state *rnd, const struct dmac_chan *chan,
		      size_t len);
void dmac_buf_even(struct dmac_buf *buf, unsigned int segments, size_t each);
void dmac_buf_load(struct dmac_buf *buf, const u8 *image);
void dmac_buf_poison(struct dmac_buf *buf, const u8 *image);
size_t dmac_buf_check(const struct dmac_buf *buf, const u8 *image);
u32 dmac_below(struct rnd_state *rnd, u32 bound);

/* xfer.c */
void dmac_ticket_set(struct dmac_ticket *ticket, bool live);
int dmac_ring_init(struct dmac_ring *ring);
void dmac_ring_free(struct dmac_ring *ring);
int dmac_xfer_init(struct dmac_xfer *xfer, struct dmac_chan *chan, struct dmac_ring *ring,
		   size_t max_len, unsigned int max_sg);
void dmac_xfer_free(struct dmac_xfer *xfer);
int dmac_xfer_map(struct dmac_xfer *xfer);
void dmac_xfer_unmap(struct dmac_xfer *xfer);
struct dmac_ticket *dmac_xfer_submit(struct dmac_xfer *xfer, const u64 *slave);
int dmac_xfer_start(struct dmac_xfer *xfer, u64 slave);
int dmac_xfer_wait(struct dmac_xfer *xfer);
bool dmac_xfer_live(const struct dmac_xfer *xfer);

/* The modes. */
void dmac_verify(struct dmac_run *run);
void dmac_hold(struct dmac_run *run);
void dmac_reenter(struct dmac_run *run);
void dmac_measure(struct dmac_run *run);
void dmac_idle(struct dmac_run *run);

#endif

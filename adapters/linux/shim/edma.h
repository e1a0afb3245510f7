/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * What the C files of the module share among themselves.
 *
 * Locks, outermost first: an interrupt's desc->lock (the kernel's, held around the message
 * callback), edma->control_lock, edma->register_lock (taken by Rust). A channel's lock is never
 * held together with control_lock; Rust takes register_lock under it. No interrupt function of the
 * kernel is called under any of them.
 */
#ifndef TOMBOLO_EDMA_H
#define TOMBOLO_EDMA_H

#include <linux/dma/edma.h>
#include <linux/dmaengine.h>
#include <linux/hrtimer.h>
#include <linux/interrupt.h>
#include <linux/kref.h>
#include <linux/llist.h>
#include <linux/list.h>
#include <linux/pci.h>
#include <linux/spinlock.h>
#include <linux/workqueue.h>

#include "shim.h"

#define TOMBOLO_NAME "tombolo_edma"

struct tombolo_edma;

/* A transfer as the client sees it. What the engine needs of it is in the channel's pool. */
struct tombolo_desc {
	struct dma_async_tx_descriptor tx;
	/* In a queue. */
	struct tombolo_desc *next;
	/* On its way back to the free ones, without the lock. */
	struct llist_node returned;
	/* All of the channel's. */
	struct list_head all;
	/* Rust's name of it, before and after it was submitted. */
	u64 prepared;
	u64 cookie;
	struct dmaengine_result result;
};

struct tombolo_queue {
	struct tombolo_desc *head;
	struct tombolo_desc **tail;
};

struct tombolo_chan {
	struct dma_chan chan;
	struct tombolo_edma *edma;
	u32 kind;
	u32 index;
	/* Where the list is; for the client where data can be. */
	struct dw_edma_region list;
	struct dw_edma_region data;
	struct tasklet_struct bottom_half;

	/* Guards what follows. */
	spinlock_t lock;
	/* Rust's channel: NULL while nobody holds the channel, and after the device went. */
	void *rust;
	void *place;
	void *pool;
	struct tombolo_room room;
	/* Submitted, in order, and finished but not told. */
	struct tombolo_queue pending;
	struct tombolo_queue done;
	struct tombolo_desc *free;
	struct list_head all;
	/* Paused by a suspend and not by the client. */
	bool held;
	/* Issued, or terminated, while the device was away. */
	bool issue_later;
	bool terminate_later;
	/*
	 * Completions so far, how many there were when the watch looked last, and how often since.
	 */
	u64 completions;
	u64 watched;
	unsigned int stalled;
	/* What earlier holders' transfers counted. */
	struct tombolo_stats past;

	struct llist_head returned;
};

struct tombolo_vector {
	struct tombolo_edma *edma;
	unsigned int index;
	int irq;
	u64 interrupts;
	u64 spurious;
	char name[40];
};

struct tombolo_edma {
	struct dma_device dma;
	struct pci_dev *pdev;
	struct kref ref;
	struct work_struct release;

	struct tombolo_engine engine;
	void __iomem *registers;
	void __iomem *memory;
	bool bus_is_identity;

	struct tombolo_handles handles;
	raw_spinlock_t register_lock;
	/* Guards the control handle and the messages. */
	raw_spinlock_t control_lock;
	struct tombolo_vectors vectors;
	struct tombolo_vector vector[TOMBOLO_MAX_VECTORS];
	/* Settles a changed message. */
	struct tasklet_struct new_message;
	/* Vectors whose handler is there. */
	unsigned int requested;
	bool polled;

	/* Looks at the channels while there is no interrupt to do it. */
	struct hrtimer watch;
	atomic_t watching;
	ktime_t watch_interval;

	/* The device will not come back: set once, seen under a channel's lock. */
	bool dead;
	/* The device is away for a time, as dead is seen. */
	bool away;
	/* It went in the midst of transfers. */
	bool cut_off;

	u64 messages_followed;
	struct dentry *debugfs;

	unsigned int count;
	struct tombolo_chan channels[] __counted_by(count);
};

static inline struct tombolo_chan *to_tombolo_chan(struct dma_chan *chan)
{
	return container_of(chan, struct tombolo_chan, chan);
}

/* pci.c */
extern struct workqueue_struct *tombolo_release_wq;
void tombolo_edma_put(struct tombolo_edma *edma);

/* dmaengine.c */
int tombolo_dmaengine_init(struct tombolo_edma *edma);
void tombolo_dmaengine_barrier(void);

/* channel.c */
void tombolo_chan_init(struct tombolo_edma *edma, struct tombolo_chan *chan);
void tombolo_dmaengine_kick(struct tombolo_edma *edma);
bool tombolo_dmaengine_look(struct tombolo_edma *edma);
void tombolo_dmaengine_stats(struct tombolo_chan *chan, struct tombolo_stats *stats);

/* stop.c */
void tombolo_dmaengine_stop(struct tombolo_edma *edma);
void tombolo_dmaengine_flush(struct tombolo_edma *edma);
void tombolo_dmaengine_lost(struct tombolo_edma *edma);

/* power.c */
extern const struct dev_pm_ops tombolo_pm_ops;
extern const struct pci_error_handlers tombolo_error_handlers;

/* irq.c */
int tombolo_irq_init(struct tombolo_edma *edma, unsigned int types, unsigned int vectors);
void tombolo_irq_connect(struct tombolo_edma *edma);
void tombolo_irq_free(struct tombolo_edma *edma);
void tombolo_irq_disable(struct tombolo_edma *edma);
void tombolo_irq_enable(struct tombolo_edma *edma);

/* work.c */
void tombolo_watch_init(struct tombolo_edma *edma);
void tombolo_watch_start(struct tombolo_edma *edma);
void tombolo_watch_stop(struct tombolo_edma *edma);

/* Starts the watch, unless it runs already. From any context. */
static inline void tombolo_watch(struct tombolo_edma *edma)
{
	if (!atomic_read(&edma->watching))
		tombolo_watch_start(edma);
}

/* debugfs.c */
void tombolo_debugfs_init(void);
void tombolo_debugfs_exit(void);
void tombolo_debugfs_add(struct tombolo_edma *edma);
void tombolo_debugfs_remove(struct tombolo_edma *edma);

#endif /* TOMBOLO_EDMA_H */

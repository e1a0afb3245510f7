/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * What channel.c, prep.c and dmaengine.c share: directions, queues of descriptors, cookies, and
 * telling clients.
 *
 * The kernel's own helpers for cookies and callbacks are private to drivers/dma.
 */
#ifndef TOMBOLO_CHANNEL_H
#define TOMBOLO_CHANNEL_H

#include "edma.h"

/* The engine is across the link: its write channels bring data here. */
static inline enum dma_transfer_direction tombolo_direction(const struct tombolo_chan *chan)
{
	return chan->kind ? DMA_MEM_TO_DEV : DMA_DEV_TO_MEM;
}

static inline void tombolo_queue_init(struct tombolo_queue *queue)
{
	queue->head = NULL;
	queue->tail = &queue->head;
}

static inline void tombolo_queue_push(struct tombolo_queue *queue, struct tombolo_desc *desc)
{
	desc->next = NULL;
	*queue->tail = desc;
	queue->tail = &desc->next;
}

static inline struct tombolo_desc *tombolo_queue_pop(struct tombolo_queue *queue)
{
	struct tombolo_desc *desc = queue->head;

	if (desc) {
		queue->head = desc->next;
		if (!queue->head)
			queue->tail = &queue->head;
	}
	return desc;
}

/* All of it, chained by ->next. */
static inline struct tombolo_desc *tombolo_queue_take(struct tombolo_queue *queue)
{
	struct tombolo_desc *head = queue->head;

	if (head)
		tombolo_queue_init(queue);
	return head;
}

/* Under the channel's lock, in the order of submission. */
static inline dma_cookie_t tombolo_cookie_assign(struct dma_async_tx_descriptor *tx)
{
	dma_cookie_t cookie = tx->chan->cookie + 1;

	if (cookie < DMA_MIN_COOKIE)
		cookie = DMA_MIN_COOKIE;
	tx->cookie = cookie;
	tx->chan->cookie = cookie;
	return cookie;
}

/* Under the channel's lock, in the same order. */
static inline void tombolo_cookie_complete(struct dma_async_tx_descriptor *tx)
{
	tx->chan->completed_cookie = tx->cookie;
	tx->cookie = 0;
}

/* What is to be called, taken while the descriptor is certainly there. */
struct tombolo_tell {
	dma_async_tx_callback callback;
	dma_async_tx_callback_result callback_result;
	void *param;
};

static inline void tombolo_tell_get(struct tombolo_tell *tell,
				    const struct dma_async_tx_descriptor *tx)
{
	tell->callback = tx->callback;
	tell->callback_result = tx->callback_result;
	tell->param = tx->callback_param;
}

static inline void tombolo_tell_none(struct tombolo_tell *tell)
{
	tell->callback = NULL;
	tell->callback_result = NULL;
}

static inline bool tombolo_tell_is_none(const struct tombolo_tell *tell)
{
	return !tell->callback && !tell->callback_result;
}

static inline void tombolo_tell(const struct tombolo_tell *tell,
				const struct dmaengine_result *result)
{
	if (tell->callback_result)
		tell->callback_result(tell->param, result);
	else if (tell->callback)
		tell->callback(tell->param);
}

/* channel.c; the first four under the channel's lock */
struct tombolo_desc *tombolo_desc_get(struct tombolo_chan *chan);

static inline void tombolo_desc_put(struct tombolo_chan *chan, struct tombolo_desc *desc)
{
	desc->next = chan->free;
	chan->free = desc;
}

void tombolo_finish(struct tombolo_chan *chan, u32 result, u32 residue);
void tombolo_collect_finished(struct tombolo_chan *chan);
int tombolo_chan_open(struct tombolo_chan *chan);
void tombolo_chan_close(struct tombolo_chan *chan);
void tombolo_chan_detach(struct tombolo_chan *chan);
bool tombolo_wait(struct tombolo_chan *chan, int (*rests)(void *rust), unsigned int limit_ms);

/* prep.c */
int tombolo_slave(struct tombolo_chan *chan, const struct dma_slave_config *config,
		  struct tombolo_slave *slave);
struct dma_async_tx_descriptor *
tombolo_prep_config_sg(struct dma_chan *dchan, struct scatterlist *sgl, unsigned int sg_len,
		       enum dma_transfer_direction direction, unsigned long flags,
		       struct dma_slave_config *config);
struct dma_async_tx_descriptor *
tombolo_prep_cyclic(struct dma_chan *dchan, dma_addr_t buffer, size_t length, size_t period,
		    enum dma_transfer_direction direction, unsigned long flags);

/* dmaengine.c */
dma_cookie_t tombolo_tx_submit(struct dma_async_tx_descriptor *tx);

#endif /* TOMBOLO_CHANNEL_H */

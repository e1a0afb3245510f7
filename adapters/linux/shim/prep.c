// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Preparing transfers, in atomic context: what a client gives, in Rust's words.
 */
#include <linux/math64.h>
#include <linux/scatterlist.h>
#include <linux/slab.h>

#include "channel.h"

/* Lists up to this length need no memory of their own while they are prepared. */
#define TOMBOLO_SG_ON_STACK 16

static u64 tombolo_bus_address(struct tombolo_edma *edma, phys_addr_t address)
{
	struct resource res = {
		.flags = IORESOURCE_MEM,
		.start = address,
		.end = address,
	};
	struct pci_bus_region region;

	if (edma->bus_is_identity)
		return address;
	pcibios_resource_to_bus(edma->pdev->bus, &region, &res);
	return region.start;
}

int tombolo_slave(struct tombolo_chan *chan, const struct dma_slave_config *config,
		  struct tombolo_slave *slave)
{
	/* Only the device's side is used, and that is one of them. */
	slave->src_addr = 0;
	slave->dst_addr = 0;
	if (tombolo_direction(chan) == DMA_DEV_TO_MEM)
		slave->src_addr = tombolo_bus_address(chan->edma, config->src_addr);
	else
		slave->dst_addr = tombolo_bus_address(chan->edma, config->dst_addr);
	slave->flags = 0;
	slave->non_list = 0;
	if (config->peripheral_config) {
		if (config->peripheral_size != sizeof(int))
			return -EINVAL;
		slave->flags = TOMBOLO_SLAVE_HAS_MODE;
		slave->non_list = *(int *)config->peripheral_config;
	}
	return 0;
}

/* Lends Rust a larger pool, in atomic context. */
static int tombolo_grow(struct tombolo_chan *chan, u32 segments)
{
	struct tombolo_room room;
	void *pool;
	int err;

	err = tombolo_edma_chan_more(chan->rust, segments, &room);
	if (err)
		return err;
	pool = kmalloc(tombolo_edma_pool_size(room.descriptors, room.segments),
		       GFP_NOWAIT | __GFP_NOWARN);
	if (!pool)
		return -ENOMEM;
	err = tombolo_edma_chan_grow(chan->rust, pool, &room);
	if (err) {
		kfree(pool);
		return err;
	}
	kfree(chan->pool);
	chan->pool = pool;
	chan->room = room;
	return 0;
}

/* What a transfer is prepared from: a list, or a ring with periods. */
struct tombolo_want {
	const struct tombolo_sg *sg;
	u32 count;
	/* Not 0: a ring. */
	u64 period;
	u32 direction;
	unsigned long flags;
	const struct tombolo_slave *slave;
};

static int tombolo_prep_rust(struct tombolo_chan *chan, const struct tombolo_want *want,
			     u64 *prepared)
{
	u32 interrupt = want->flags & DMA_PREP_INTERRUPT;

	if (want->period)
		return tombolo_edma_chan_prep_cyclic(chan->rust, want->sg, want->period,
						     want->direction, interrupt, prepared);
	return tombolo_edma_chan_prep(chan->rust, want->sg, want->count, want->direction, interrupt,
				      want->slave, prepared);
}

static u32 tombolo_want_segments(const struct tombolo_want *want)
{
	u64 periods;

	if (!want->period)
		return want->count;
	periods = div64_u64(want->sg->length, want->period);
	return min_t(u64, periods, U32_MAX);
}

static struct dma_async_tx_descriptor *tombolo_prep(struct tombolo_chan *chan,
						    const struct tombolo_want *want)
{
	struct dma_async_tx_descriptor *tx = NULL;
	struct tombolo_desc *desc;
	unsigned long flags;
	int err;

	spin_lock_irqsave(&chan->lock, flags);
	if (!chan->rust || chan->edma->dead || chan->terminate_later)
		goto unlock;
	desc = tombolo_desc_get(chan);
	if (!desc)
		goto unlock;
	err = tombolo_prep_rust(chan, want, &desc->prepared);
	if (unlikely(err == -ENOSPC)) {
		err = tombolo_grow(chan, tombolo_want_segments(want));
		if (!err)
			err = tombolo_prep_rust(chan, want, &desc->prepared);
	}
	if (unlikely(err)) {
		tombolo_desc_put(chan, desc);
		goto unlock;
	}
	tx = &desc->tx;
	tx->flags = want->flags;
	tx->cookie = 0;
	tx->callback = NULL;
	tx->callback_result = NULL;
	tx->callback_param = NULL;
unlock:
	spin_unlock_irqrestore(&chan->lock, flags);
	return tx;
}

struct dma_async_tx_descriptor *
tombolo_prep_config_sg(struct dma_chan *dchan, struct scatterlist *sgl, unsigned int sg_len,
		       enum dma_transfer_direction direction, unsigned long flags,
		       struct dma_slave_config *config)
{
	struct tombolo_chan *chan = to_tombolo_chan(dchan);
	struct tombolo_sg on_stack[TOMBOLO_SG_ON_STACK] __uninitialized;
	struct tombolo_sg *list = on_stack;
	struct tombolo_want want = { .direction = direction, .flags = flags };
	struct dma_async_tx_descriptor *tx;
	struct tombolo_slave slave;
	struct scatterlist *sg;
	unsigned int count = 0;

	if (config) {
		if (tombolo_slave(chan, config, &slave))
			return NULL;
		want.slave = &slave;
	}
	if (sg_len > TOMBOLO_SG_ON_STACK) {
		list = kmalloc_array(sg_len, sizeof(*list), GFP_NOWAIT | __GFP_NOWARN);
		if (!list)
			return NULL;
	}
	for (sg = sgl; sg && count < sg_len; sg = sg_next(sg)) {
		list[count].address = sg_dma_address(sg);
		list[count].length = sg_dma_len(sg);
		count++;
	}
	want.sg = list;
	want.count = count;
	tx = tombolo_prep(chan, &want);
	if (list != on_stack)
		kfree(list);
	return tx;
}

struct dma_async_tx_descriptor *
tombolo_prep_cyclic(struct dma_chan *dchan, dma_addr_t buffer, size_t length, size_t period,
		    enum dma_transfer_direction direction, unsigned long flags)
{
	struct tombolo_sg sg = { .address = buffer, .length = length };
	struct tombolo_want want = {
		.sg = &sg,
		.count = 1,
		.period = period,
		.direction = direction,
		.flags = flags,
	};

	return period ? tombolo_prep(to_tombolo_chan(dchan), &want) : NULL;
}

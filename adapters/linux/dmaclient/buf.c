// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Host memory of a transfer: pieces of random length, with guards before, between and after them.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/math64.h>
#include <linux/mm.h>
#include <linux/slab.h>
#include <linux/string.h>

#include "dmaclient.h"

#define DMAC_GUARD 0xa5

u32 dmac_below(struct rnd_state *rnd, u32 bound)
{
	return prandom_u32_state(rnd) % bound;
}

int dmac_buf_init(struct dmac_buf *buf, size_t max_len, unsigned int max_sg)
{
	buf->size = max_len + (max_sg + 1) * DMAC_GAP;
	buf->max_sg = max_sg;
	/* Of the linear map, for sg_set_buf(). */
	buf->mem = kmalloc(buf->size, GFP_KERNEL);
	buf->sg = kvcalloc(max_sg, sizeof(*buf->sg), GFP_KERNEL);
	return buf->mem && buf->sg ? 0 : -ENOMEM;
}

void dmac_buf_free(struct dmac_buf *buf)
{
	kfree(buf->mem);
	kvfree(buf->sg);
	buf->mem = NULL;
	buf->sg = NULL;
}

/* How long a piece is of which rem bytes are left, for it and for so many more. */
static size_t dmac_piece(struct rnd_state *rnd, const struct dmac_chan *chan, size_t rem,
			 unsigned int more)
{
	size_t least = chan->align, most, rest = (size_t)more * chan->max_seg;
	size_t fair = rem / (more + 1);

	if (!more)
		return rem;
	if (rem > rest)
		least = max(least, rem - rest);
	most = min_t(size_t, chan->max_seg, rem - (size_t)more * chan->align);
	return clamp(chan->align + rounddown(dmac_below(rnd, 2 * fair), chan->align), least, most);
}

/* len is a multiple of the channel's alignment, and at most max_sg pieces of max_seg. */
void dmac_buf_scatter(struct dmac_buf *buf, struct rnd_state *rnd, const struct dmac_chan *chan,
		      size_t len)
{
	unsigned int least = DIV_ROUND_UP(len, chan->max_seg);
	unsigned int most = min_t(size_t, min(buf->max_sg, chan->max_sg), len / chan->align);
	size_t at = 0, rem = len, piece;
	unsigned int i;

	buf->len = len;
	buf->nents = least + (most > least ? dmac_below(rnd, most - least + 1) : 0);
	sg_init_table(buf->sg, buf->nents);
	for (i = 0; i < buf->nents; i++) {
		piece = dmac_piece(rnd, chan, rem, buf->nents - i - 1);
		at += chan->align * dmac_below(rnd, DMAC_GAP / chan->align + 1);
		sg_set_buf(&buf->sg[i], buf->mem + at, piece);
		at += piece;
		rem -= piece;
	}
}

/* Pieces of one length, apart from each other so that none are merged. */
void dmac_buf_even(struct dmac_buf *buf, unsigned int segments, size_t each)
{
	unsigned int i;

	buf->nents = segments;
	buf->len = segments * each;
	sg_init_table(buf->sg, segments);
	for (i = 0; i < segments; i++)
		sg_set_buf(&buf->sg[i], buf->mem + i * (each + DMAC_GAP), each);
}

/* What is to go out. */
void dmac_buf_load(struct dmac_buf *buf, const u8 *image)
{
	unsigned int i;

	memset(buf->mem, DMAC_GUARD, buf->size);
	for (i = 0; i < buf->nents; i++) {
		memcpy(sg_virt(&buf->sg[i]), image, buf->sg[i].length);
		image += buf->sg[i].length;
	}
}

/* What is to come in differs from this in every byte. */
void dmac_buf_poison(struct dmac_buf *buf, const u8 *image)
{
	unsigned int i, k;
	u8 *to;

	memset(buf->mem, DMAC_GUARD, buf->size);
	for (i = 0; i < buf->nents; i++) {
		to = sg_virt(&buf->sg[i]);
		for (k = 0; k < buf->sg[i].length; k++)
			to[k] = ~*image++;
	}
}

static size_t dmac_guard_check(const u8 *from, const u8 *to)
{
	const u8 *bad = memchr_inv(from, DMAC_GUARD, to - from);
	size_t wrong = 0;

	for (; bad && bad < to; bad++)
		wrong += *bad != DMAC_GUARD;
	return wrong;
}

/* Bytes that are not as they should be, the guards' among them. */
size_t dmac_buf_check(const struct dmac_buf *buf, const u8 *image)
{
	const u8 *guard = buf->mem, *is;
	unsigned int i, k, length;
	size_t wrong = 0;

	for (i = 0; i < buf->nents; i++) {
		is = sg_virt(&buf->sg[i]);
		length = buf->sg[i].length;
		wrong += dmac_guard_check(guard, is);
		if (memcmp(is, image, length))
			for (k = 0; k < length; k++)
				wrong += is[k] != image[k];
		guard = is + length;
		image += length;
	}
	return wrong + dmac_guard_check(guard, buf->mem + buf->size);
}

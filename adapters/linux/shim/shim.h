/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * What C and Rust share: ../src/abi.rs and ../src/entry in C's words.
 *
 * Structures have the same size and offsets on both sides, which both sides check. "Control"
 * functions are called under the control lock, "channel" functions under the channel's lock; the
 * others say where they may be called. Errors are negative errno values.
 */
#ifndef TOMBOLO_SHIM_H
#define TOMBOLO_SHIM_H

#include <linux/build_bug.h>
#include <linux/stddef.h>
#include <linux/types.h>

#define TOMBOLO_ABI_VERSION	1
#define TOMBOLO_MAX_VECTORS	32
/* As many completions as one call reports. */
#define TOMBOLO_BATCH		16

enum tombolo_irq_mode {
	TOMBOLO_IRQ_POLLING	= 0,
	TOMBOLO_IRQ_MSI		= 1,
	TOMBOLO_IRQ_MSIX	= 2,
};

enum tombolo_completion_kind {
	TOMBOLO_FINISHED	= 0,
	TOMBOLO_PERIOD		= 1,
};

#define TOMBOLO_SLAVE_HAS_MODE		1
#define TOMBOLO_ENGINE_HAS_LISTS	1
#define TOMBOLO_ENGINE_BASE_KNOWN	2

struct tombolo_sg {
	u64 address;
	u64 length;
};

struct tombolo_slave {
	u64 src_addr;
	u64 dst_addr;
	u32 flags;
	s32 non_list;
};

struct tombolo_completion {
	u64 cookie;
	u32 kind;
	u32 result;
	u32 residue;
	u32 period;
};

struct tombolo_status {
	u32 residue;
	u32 paused;
};

struct tombolo_report {
	u64 write_channels;
	u64 read_channels;
};

struct tombolo_engine {
	u64 memory_base;
	u32 format;
	u32 register_bar;
	u32 memory_bar;
	u32 flags;
	u16 write_channels;
	u16 read_channels;
	u32 memory_size;
};

struct tombolo_places {
	u32 list_offset;
	u32 list_size;
	u32 data_offset;
	u32 data_size;
};

struct tombolo_message {
	u64 address;
	u32 data;
	u32 reserved;
};

struct tombolo_vectors {
	u32 mode;
	u32 count;
	u32 epoch;
	u32 reserved;
	struct tombolo_message messages[TOMBOLO_MAX_VECTORS];
};

struct tombolo_open_args {
	void *registers;
	u64 registers_size;
	void *lock;
	const struct tombolo_vectors *vectors;
	u32 format;
	u16 write_channels;
	u16 read_channels;
	u32 function;
	u32 reserved;
	void *device;
};

struct tombolo_handles {
	const void *shared;
	void *control;
};

struct tombolo_chan_args {
	void *place;
	void *pool;
	void *list;
	u64 list_address;
	u32 list_size;
	u32 descriptors;
	u32 segments;
	u32 kind;
	u32 index;
	u32 reserved;
};

struct tombolo_room {
	u32 descriptors;
	u32 segments;
};

struct tombolo_stats {
	u64 submitted;
	u64 completed;
	u64 failed;
	u64 periods;
	u64 bytes;
	u64 segments;
	u64 doorbells;
	u64 doorbells_again;
	u64 events;
	u64 spurious;
	u64 found_by_looking;
	u64 violations;
};

static_assert(sizeof(struct tombolo_sg) == 16);
static_assert(offsetof(struct tombolo_sg, length) == 8);
static_assert(sizeof(struct tombolo_slave) == 24);
static_assert(offsetof(struct tombolo_slave, dst_addr) == 8);
static_assert(offsetof(struct tombolo_slave, flags) == 16);
static_assert(offsetof(struct tombolo_slave, non_list) == 20);
static_assert(sizeof(struct tombolo_completion) == 24);
static_assert(offsetof(struct tombolo_completion, kind) == 8);
static_assert(offsetof(struct tombolo_completion, result) == 12);
static_assert(offsetof(struct tombolo_completion, residue) == 16);
static_assert(offsetof(struct tombolo_completion, period) == 20);
static_assert(sizeof(struct tombolo_status) == 8);
static_assert(offsetof(struct tombolo_status, paused) == 4);
static_assert(sizeof(struct tombolo_report) == 16);
static_assert(offsetof(struct tombolo_report, read_channels) == 8);
static_assert(sizeof(struct tombolo_engine) == 32);
static_assert(offsetof(struct tombolo_engine, format) == 8);
static_assert(offsetof(struct tombolo_engine, register_bar) == 12);
static_assert(offsetof(struct tombolo_engine, memory_bar) == 16);
static_assert(offsetof(struct tombolo_engine, flags) == 20);
static_assert(offsetof(struct tombolo_engine, write_channels) == 24);
static_assert(offsetof(struct tombolo_engine, read_channels) == 26);
static_assert(offsetof(struct tombolo_engine, memory_size) == 28);
static_assert(sizeof(struct tombolo_places) == 16);
static_assert(offsetof(struct tombolo_places, list_size) == 4);
static_assert(offsetof(struct tombolo_places, data_offset) == 8);
static_assert(offsetof(struct tombolo_places, data_size) == 12);
static_assert(sizeof(struct tombolo_message) == 16);
static_assert(offsetof(struct tombolo_message, data) == 8);
static_assert(offsetof(struct tombolo_message, reserved) == 12);
static_assert(sizeof(struct tombolo_vectors) == 16 + 16 * TOMBOLO_MAX_VECTORS);
static_assert(offsetof(struct tombolo_vectors, count) == 4);
static_assert(offsetof(struct tombolo_vectors, epoch) == 8);
static_assert(offsetof(struct tombolo_vectors, reserved) == 12);
static_assert(offsetof(struct tombolo_vectors, messages) == 16);
static_assert(sizeof(struct tombolo_open_args) == 56);
static_assert(offsetof(struct tombolo_open_args, registers_size) == 8);
static_assert(offsetof(struct tombolo_open_args, lock) == 16);
static_assert(offsetof(struct tombolo_open_args, vectors) == 24);
static_assert(offsetof(struct tombolo_open_args, format) == 32);
static_assert(offsetof(struct tombolo_open_args, write_channels) == 36);
static_assert(offsetof(struct tombolo_open_args, read_channels) == 38);
static_assert(offsetof(struct tombolo_open_args, function) == 40);
static_assert(offsetof(struct tombolo_open_args, reserved) == 44);
static_assert(offsetof(struct tombolo_open_args, device) == 48);
static_assert(sizeof(struct tombolo_handles) == 16);
static_assert(offsetof(struct tombolo_handles, control) == 8);
static_assert(sizeof(struct tombolo_chan_args) == 56);
static_assert(offsetof(struct tombolo_chan_args, pool) == 8);
static_assert(offsetof(struct tombolo_chan_args, list) == 16);
static_assert(offsetof(struct tombolo_chan_args, list_address) == 24);
static_assert(offsetof(struct tombolo_chan_args, list_size) == 32);
static_assert(offsetof(struct tombolo_chan_args, descriptors) == 36);
static_assert(offsetof(struct tombolo_chan_args, segments) == 40);
static_assert(offsetof(struct tombolo_chan_args, kind) == 44);
static_assert(offsetof(struct tombolo_chan_args, index) == 48);
static_assert(offsetof(struct tombolo_chan_args, reserved) == 52);
static_assert(sizeof(struct tombolo_room) == 8);
static_assert(offsetof(struct tombolo_room, segments) == 4);
static_assert(sizeof(struct tombolo_stats) == 96);
static_assert(offsetof(struct tombolo_stats, completed) == 8);
static_assert(offsetof(struct tombolo_stats, failed) == 16);
static_assert(offsetof(struct tombolo_stats, periods) == 24);
static_assert(offsetof(struct tombolo_stats, bytes) == 32);
static_assert(offsetof(struct tombolo_stats, segments) == 40);
static_assert(offsetof(struct tombolo_stats, doorbells) == 48);
static_assert(offsetof(struct tombolo_stats, doorbells_again) == 56);
static_assert(offsetof(struct tombolo_stats, events) == 64);
static_assert(offsetof(struct tombolo_stats, spurious) == 72);
static_assert(offsetof(struct tombolo_stats, found_by_looking) == 80);
static_assert(offsetof(struct tombolo_stats, violations) == 88);

/* Rust, called by C. */
u32 tombolo_init(void);
int tombolo_parse_irq(const char *text, size_t length);
int tombolo_selftest(void *device, void *lock, u32 level);

int tombolo_edma_find(void *function, u16 vendor, u16 device, struct tombolo_engine *found);
int tombolo_edma_places(const struct tombolo_engine *engine, u32 kind, u32 index,
			struct tombolo_places *places);
int tombolo_edma_open(const struct tombolo_open_args *args, struct tombolo_handles *handles);
int tombolo_edma_close(void *control);

int tombolo_edma_connect(const void *device, void *control);
int tombolo_edma_hold(void *control);
int tombolo_edma_refresh(void *control);
int tombolo_edma_suspend(void *control);
int tombolo_edma_after_reset(void *control);

int tombolo_edma_irq(const void *shared, struct tombolo_report *report);
int tombolo_edma_is_gone(const void *shared);

size_t tombolo_edma_chan_size(void);
size_t tombolo_edma_pool_size(u32 descriptors, u32 segments);
int tombolo_edma_chan_open(void *control, const struct tombolo_chan_args *args);
int tombolo_edma_chan_close(void *chan);
int tombolo_edma_chan_more(void *chan, u32 segments, struct tombolo_room *room);
int tombolo_edma_chan_grow(void *chan, void *pool, const struct tombolo_room *room);
int tombolo_edma_chan_configure(void *chan, const struct tombolo_slave *config);
int tombolo_edma_chan_prep(void *chan, const struct tombolo_sg *sg, u32 count, u32 direction,
			   u32 interrupt, const struct tombolo_slave *config, u64 *prepared);
int tombolo_edma_chan_prep_cyclic(void *chan, const struct tombolo_sg *buffer, u64 period,
				  u32 direction, u32 interrupt, u64 *prepared);
int tombolo_edma_chan_submit(void *chan, u64 prepared, u64 *cookie);
int tombolo_edma_chan_issue(void *chan);
u32 tombolo_edma_chan_poll(void *chan, struct tombolo_completion *out, u32 max);
int tombolo_edma_chan_look(void *chan);
void tombolo_edma_chan_status(void *chan, u64 cookie, struct tombolo_status *status);
int tombolo_edma_chan_pause(void *chan);
int tombolo_edma_chan_resume(void *chan);
int tombolo_edma_chan_is_paused(void *chan);
int tombolo_edma_chan_terminate(void *chan);
int tombolo_edma_chan_is_terminated(void *chan);
int tombolo_edma_chan_is_quiescent(void *chan);
int tombolo_edma_chan_has_transfers(void *chan);
void tombolo_edma_chan_stats(void *chan, struct tombolo_stats *stats);

/* C, called by Rust. */
u32 tombolo_shim_config_read(void *function, u16 offset, u32 width);
void tombolo_shim_config_write(void *function, u16 offset, u32 width, u32 value);
unsigned long tombolo_shim_lock(void *lock);
void tombolo_shim_unlock(void *lock, unsigned long flags);
void *tombolo_shim_alloc(size_t size, size_t align);
void tombolo_shim_free(void *memory);
void tombolo_shim_log(const void *device, u32 level, const char *text, size_t length);
void __noreturn tombolo_shim_panic(const char *text, size_t length);
void *tombolo_shim_dma_alloc(void *device, size_t size, u64 *address);
void tombolo_shim_dma_free(void *device, size_t size, void *memory, u64 address);
int tombolo_shim_dma_map(void *device, void *memory, size_t size, u32 direction, u64 *address);
void tombolo_shim_dma_unmap(void *device, u64 address, size_t size, u32 direction);
void tombolo_shim_dma_sync(void *device, u64 address, size_t size, u32 direction, int for_device);

#endif /* TOMBOLO_SHIM_H */

// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * Counts what a guest executes, exactly and repeatably: a TCG plugin for QEMU.
 *
 *   qemu-system-x86_64 -icount shift=0,sleep=off -plugin count.so,out=FILE ...
 *
 * The guest cuts time into pieces by executing a marker, a long no-operation that nothing else
 * contains: nopl 0x5dc000NN(%rax,%rax,1), NN being its number. At each marker, and at the end, the
 * plugin writes what was counted since the last one:
 *
 *   M  FROM  TO                      the numbers of the two markers, hexadecimal
 *   I  ADDRESS  COUNT                executions of the instruction there
 *   A  R|W  ADDRESS  PHYSICAL COUNT  device accesses of it, by bus address
 *   O  COUNT                         instructions that found no room in the table
 *
 * Only accesses that QEMU itself carries out are device accesses: memory behind a BAR that is mapped
 * into the guest is reached without it, as memory.
 *
 * The declarations follow QEMU's documented plugin interface, version 7. Debian's packages bring no
 * header for it. One virtual processor only.
 */
#include <inttypes.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define API_VERSION 7
#define EXPORT __attribute__((visibility("default")))
#define SLOTS (1u << 21)
#define BUCKETS (1u << 22)
#define ACCESSES (1u << 14)

typedef uint64_t plugin_id;
struct qemu_plugin_tb;
struct qemu_plugin_insn;
struct qemu_plugin_scoreboard;
struct qemu_plugin_hwaddr;
struct u64_entry {
	struct qemu_plugin_scoreboard *score;
	size_t offset;
};

enum { OP_ADD_U64 = 0, CB_NO_REGS = 0, MEM_RW = 3 };

typedef void (*trans_cb)(struct qemu_plugin_tb *tb, void *data);
typedef void (*insn_cb)(unsigned int vcpu, void *data);
typedef void (*mem_cb)(unsigned int vcpu, uint32_t info, uint64_t vaddr, void *data);
typedef void (*exit_cb)(void *data);

void qemu_plugin_register_vcpu_tb_trans_cb(plugin_id id, trans_cb cb, void *data);
size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *tb);
struct qemu_plugin_insn *qemu_plugin_tb_get_insn(const struct qemu_plugin_tb *tb, size_t index);
uint64_t qemu_plugin_insn_vaddr(const struct qemu_plugin_insn *insn);
size_t qemu_plugin_insn_data(const struct qemu_plugin_insn *insn, void *to, size_t len);
void qemu_plugin_register_vcpu_insn_exec_inline_per_vcpu(struct qemu_plugin_insn *insn, int op,
							  struct u64_entry entry, uint64_t imm);
void qemu_plugin_register_vcpu_insn_exec_cb(struct qemu_plugin_insn *insn, insn_cb cb, int flags,
					    void *data);
void qemu_plugin_register_vcpu_mem_cb(struct qemu_plugin_insn *insn, mem_cb cb, int flags, int rw,
				      void *data);
bool qemu_plugin_mem_is_store(uint32_t info);
struct qemu_plugin_hwaddr *qemu_plugin_get_hwaddr(uint32_t info, uint64_t vaddr);
bool qemu_plugin_hwaddr_is_io(const struct qemu_plugin_hwaddr *haddr);
uint64_t qemu_plugin_hwaddr_phys_addr(const struct qemu_plugin_hwaddr *haddr);
struct qemu_plugin_scoreboard *qemu_plugin_scoreboard_new(size_t element);
void *qemu_plugin_scoreboard_find(struct qemu_plugin_scoreboard *score, unsigned int vcpu);
void qemu_plugin_register_atexit_cb(plugin_id id, exit_cb cb, void *data);

EXPORT int qemu_plugin_version = API_VERSION;

/* One per instruction address, in the order in which they were first translated. */
static struct slot {
	uint64_t address;
	uint64_t reported;
} *slots;
/* Index + 1 into slots, by hash of the address. */
static uint32_t *buckets;
static uint32_t slots_used;
static uint64_t overflows;
static struct qemu_plugin_scoreboard *counts;

/* An instruction that reached a device, and where. */
static struct access {
	uint64_t address;
	uint64_t physical;
	uint64_t count;
	bool store;
} *accesses;
static uint32_t accesses_used;

static unsigned int last_marker;
static FILE *out;

static uint32_t slot_of(uint64_t address)
{
	uint32_t at = (uint32_t)(address * UINT64_C(0x9e3779b97f4a7c15) >> 42);

	for (;; at = (at + 1) & (BUCKETS - 1)) {
		if (!buckets[at])
			break;
		if (slots[buckets[at] - 1].address == address)
			return buckets[at] - 1;
	}
	if (slots_used == SLOTS)
		return SLOTS;
	slots[slots_used].address = address;
	buckets[at] = ++slots_used;
	return slots_used - 1;
}

static void on_access(unsigned int vcpu, uint32_t info, uint64_t vaddr, void *data)
{
	struct qemu_plugin_hwaddr *where = qemu_plugin_get_hwaddr(info, vaddr);
	uint64_t physical, address = (uintptr_t)data;
	bool store;
	uint32_t i;

	(void)vcpu;
	if (!where || !qemu_plugin_hwaddr_is_io(where))
		return;
	physical = qemu_plugin_hwaddr_phys_addr(where);
	store = qemu_plugin_mem_is_store(info);
	for (i = 0; i < accesses_used; i++) {
		struct access *a = &accesses[i];

		if (a->address == address && a->physical == physical && a->store == store) {
			a->count++;
			return;
		}
	}
	if (accesses_used == ACCESSES) {
		overflows++;
		return;
	}
	accesses[accesses_used++] = (struct access){ address, physical, 1, store };
}

static void report(unsigned int vcpu, unsigned int marker)
{
	const uint64_t *now = qemu_plugin_scoreboard_find(counts, vcpu);
	uint32_t i;

	fprintf(out, "M\t%x\t%x\n", last_marker, marker);
	for (i = 0; i < slots_used; i++) {
		if (now[i] == slots[i].reported)
			continue;
		fprintf(out, "I\t%" PRIx64 "\t%" PRIu64 "\n", slots[i].address,
			now[i] - slots[i].reported);
		slots[i].reported = now[i];
	}
	for (i = 0; i < accesses_used; i++)
		fprintf(out, "A\t%c\t%" PRIx64 "\t%" PRIx64 "\t%" PRIu64 "\n",
			accesses[i].store ? 'W' : 'R', accesses[i].address, accesses[i].physical,
			accesses[i].count);
	fprintf(out, "O\t%" PRIu64 "\n", overflows);
	fflush(out);
	accesses_used = 0;
	last_marker = marker;
}

static void on_marker(unsigned int vcpu, void *data)
{
	report(vcpu, (unsigned int)(uintptr_t)data);
}

static void on_exit_(void *data)
{
	(void)data;
	report(0, 0xff);
	fclose(out);
}

static bool is_marker(const uint8_t *code, size_t len)
{
	static const uint8_t head[4] = { 0x0f, 0x1f, 0x84, 0x00 }, tail[3] = { 0x00, 0xc0, 0x5d };

	return len >= 8 && !memcmp(code, head, sizeof(head)) && !memcmp(code + 5, tail, sizeof(tail));
}

static void on_translation(struct qemu_plugin_tb *tb, void *data)
{
	size_t i, n = qemu_plugin_tb_n_insns(tb);

	(void)data;
	for (i = 0; i < n; i++) {
		struct qemu_plugin_insn *insn = qemu_plugin_tb_get_insn(tb, i);
		uint64_t address = qemu_plugin_insn_vaddr(insn);
		uint32_t slot = slot_of(address);
		uint8_t code[16];
		size_t len = qemu_plugin_insn_data(insn, code, sizeof(code));

		if (slot == SLOTS) {
			overflows++;
			continue;
		}
		qemu_plugin_register_vcpu_insn_exec_inline_per_vcpu(
			insn, OP_ADD_U64, (struct u64_entry){ counts, slot * sizeof(uint64_t) }, 1);
		if (is_marker(code, len))
			qemu_plugin_register_vcpu_insn_exec_cb(insn, on_marker, CB_NO_REGS,
							       (void *)(uintptr_t)code[4]);
		/* Drivers live in the upper half of the address space. */
		if (address >> 63)
			qemu_plugin_register_vcpu_mem_cb(insn, on_access, CB_NO_REGS, MEM_RW,
							 (void *)(uintptr_t)address);
	}
}

EXPORT int qemu_plugin_install(plugin_id id, const void *info, int argc, char **argv)
{
	const char *path = NULL;
	int i;

	(void)info;
	for (i = 0; i < argc; i++) {
		if (!strncmp(argv[i], "out=", 4))
			path = argv[i] + 4;
	}
	if (!path) {
		fprintf(stderr, "count: out=FILE is missing\n");
		return -1;
	}
	out = fopen(path, "w");
	slots = calloc(SLOTS, sizeof(*slots));
	buckets = calloc(BUCKETS, sizeof(*buckets));
	accesses = calloc(ACCESSES, sizeof(*accesses));
	if (!out || !slots || !buckets || !accesses) {
		fprintf(stderr, "count: no memory, or %s cannot be written\n", path);
		return -1;
	}
	counts = qemu_plugin_scoreboard_new(SLOTS * sizeof(uint64_t));
	qemu_plugin_register_vcpu_tb_trans_cb(id, on_translation, NULL);
	qemu_plugin_register_atexit_cb(id, on_exit_, NULL);
	return 0;
}

#!/bin/sh
# SPDX-License-Identifier: GPL-2.0 OR MIT
# mkobj.sh OUTPUT: the crate as one relocatable object with the entry points that C calls, no others.
set -eu

output=$1
here=$(cd "$(dirname "$0")" && pwd)
: "${CARGO:=cargo}" "${LD:=ld}" "${OBJCOPY:=objcopy}" "${TARGET:=x86_64-unknown-none}"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

sysroot=$(cd "$here" && "${RUSTC:-rustc}" --print sysroot)
if [ ! -e "$sysroot/lib/rustlib/src/rust/library/core/Cargo.toml" ]; then
	echo "the source of Rust's core is missing in $sysroot:" >&2
	echo "run 'rustup component add rust-src', or install Debian's rust-src of the same version" >&2
	exit 1
fi

# Unstable options of a stable compiler: what the kernel's own Rust does. No path of this machine goes
# into the object.
cd "$here"
root=$(cd ../.. && pwd)
remap="'--remap-path-prefix=$sysroot/lib/rustlib/src/rust=rust', '--remap-path-prefix=$root=tombolo',
	'--remap-path-prefix=${CARGO_HOME:-$HOME/.cargo}=cargo'"
library=$(RUSTC_BOOTSTRAP=1 "$CARGO" rustc --config kernel.toml --config "target.$TARGET.rustflags = [$(echo "$remap" | tr -d '\n\t')]" --package tombolo-linux --lib \
	--profile kernel --target "$TARGET" --crate-type staticlib --message-format json-render-diagnostics |
	sed -n 's/.*"filenames":\["\([^"]*libtombolo_linux\.a\)".*/\1/p' | tail -n 1)
if [ ! -e "$library" ]; then
	echo "cargo has built no libtombolo_linux.a" >&2
	exit 1
fi

# The entry points are the functions that shim.h declares and src/entry has.
entries=$(sed -n 's/^pub \(unsafe \)\{0,1\}extern "C" fn \([a-z0-9_]*\).*/\2/p' src/entry/*.rs)
set --
for entry in $entries; do
	set -- "$@" -u "$entry"
done
"$LD" -r --gc-sections -T merge.lds "$@" -o "$work/all.o" "$library"
set --
for entry in $entries; do
	set -- "$@" "--keep-global-symbol=$entry"
done
"$OBJCOPY" "$@" --remove-section=.eh_frame --remove-section=.rela.eh_frame --remove-section=.comment \
	--remove-section=.note.gnu.property --remove-section=__patchable_function_entries \
	--remove-section=.rela__patchable_function_entries --remove-section=.llvmbc \
	--remove-section=.llvmcmd "$work/all.o" "$work/kept.o"
mv "$work/kept.o" "$output"

#!/bin/sh
# SPDX-License-Identifier: GPL-2.0 OR MIT
# check.sh OBJECT [MODULE]: looks into the Rust object, and into the module, for what must not be there.
set -eu

: "${NM:=nm}" "${OBJDUMP:=objdump}" "${READELF:=readelf}"
here=$(cd "$(dirname "$0")" && pwd)
object=${1:-$here/tombolo_rust.o_shipped}
module=${2:-}
failures=0

fail() {
	echo "check: $1" >&2
	failures=$((failures + 1))
}

[ -e "$object" ] || { echo "check: $object is missing: run 'make rust' first" >&2; exit 1; }

# Undefined symbols: the shim's functions, and the thunks of the mitigations.
declared=$(sed -n 's/^.*[ *]\(tombolo_shim_[a-z0-9_]*\)(.*/\1/p' "$here/shim/shim.h" | sort -u)
thunks=0
for symbol in $("$NM" -u "$object" | sed -n 's/^ *U //p'); do
	case $symbol in
	__x86_indirect_thunk_* | __x86_return_thunk)
		thunks=$((thunks + 1))
		;;
	*)
		echo "$declared" | grep -qx "$symbol" || fail "$symbol is undefined, and shim.h does not declare it"
		;;
	esac
done
[ "$thunks" -ge 2 ] || fail "there are no thunks: returns or indirect calls are not guarded"

# Global symbols: what shim.h declares as Rust's, no more and no less.
wanted=$(sed -n 's/^[a-z].*[ *]\(tombolo_[a-z0-9_]*\)(.*/\1/p' "$here/shim/shim.h" | grep -v '^tombolo_shim_' | sort -u)
found=$("$NM" -g --defined-only "$object" | sed -n 's/^[0-9a-f]* [A-Z] //p' | sort -u)
[ "$wanted" = "$found" ] || fail "entry points differ from shim.h: $(printf '%s\n' "$wanted" "$found" | sort | uniq -u | tr '\n' ' ')"

# Sections: no unwind tables, no constructors, nothing that is both writable and executable.
sections=$("$READELF" -SW "$object")
for section in .eh_frame .init_array .ctors .fini_array .llvmbc .note.gnu.property; do
	echo "$sections" | grep -q " \\$section " && fail "section $section is there"
done
echo "$sections" | grep -q ' WAX \| WX ' && fail "a section is writable and executable"

# Code: no bare return, no indirect branch, no vector or floating-point register.
code=$("$OBJDUMP" -d --no-show-raw-insn "$object")
echo "$code" | grep -qE '	(repz )?ret' && fail "a return is not a jump to the return thunk"
echo "$code" | grep -qE '	(call|jmp) +\*' && fail "an indirect branch does not go through a thunk"
echo "$code" | grep -qE '%[xyz]mm[0-9]|	f(ld|st|add|mul)' && fail "floating-point or vector registers are used"
# Each function that C calls may be reached through a pointer: it begins with endbr64, behind padding.
for entry in $wanted; do
	echo "$code" | grep -A1 "<$entry>:" | grep -q endbr64 || fail "$entry does not begin with endbr64"
done

if [ -n "$module" ] && [ -e "$module" ]; then
	undefined=$("$NM" -u "$module" | grep -c ' tombolo_' || true)
	[ "$undefined" -eq 0 ] || fail "the module lacks $undefined of its own symbols"
	"$READELF" -SW "$module" | grep -q ' \.eh_frame ' && fail "the module has .eh_frame"
fi

[ "$failures" -eq 0 ] || exit 1
size=$("$READELF" -SW "$object" | sed -n 's/.* \.text  *PROGBITS  *[0-9a-f]* [0-9a-f]* \([0-9a-f]*\) .*/\1/p')
echo "check: passed ($(printf '%d' "0x$size") bytes of Rust code)"

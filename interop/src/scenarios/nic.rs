//! Linux's own lan743x on our model: two controllers in one guest, joined by a wire.

use std::time::Duration;

use anyhow::{Result, bail};
use tombolo_sim::lan743x::wire::{Wire, WireParams};
use tombolo_sim::lan743x::{Lan743x, Params, presets};

use super::{Context, silent};
use crate::devices::Served;
use crate::guest::Spec;

/// Programs of the Debian folder that guests need.
const PROGRAMS: [&str; 3] = ["usr/bin/ip", "usr/sbin/ethtool", "usr/bin/iperf3"];
const MODULES: [&str; 3] = ["crc16", "phylink", "lan743x"];

/// What each guest does: brings both interfaces up in namespaces of their own, then `traffic`.
const BEGIN: &str = r#"
# The shell would take its own.
ip() { /bin/ip "$@"; }
load crc16; load phylink; load lan743x
mkdir -p /run/netns /etc; ip link set lo up
side() { # NAME ADDRESS HOST
	ip netns add $1 || fail "netns $1"
	n=$(ls /sys/bus/pci/devices/$2/net 2>/dev/null) || fail "$2 has no interface"
	ip link set $n netns $1; ip -n $1 link set $n name e0; ip -n $1 link set lo up
	ip -n $1 addr add 10.0.0.$3/24 dev e0; ip -n $1 link set e0 up || fail "$1 does not come up"
}
in_a() { ip netns exec a "$@"; }
in_b() { ip netns exec b "$@"; }
carrier() { i=0; while [ "$(ip netns exec $1 cat /sys/class/net/e0/carrier 2>/dev/null)" != 1 ]; do i=$((i + 1)); [ $i -lt 50 ] || { fail "$1 has no carrier"; break; }; sleep 0.2; done; }
"#;

const TRAFFIC: &str = r#"
side a @A@ 1; side b @B@ 2; carrier a; carrier b
in_a ping -c 20 -i 0.1 -q 10.0.0.2 > /tmp/ping 2>&1 || fail "ping: $(tail -n 2 /tmp/ping)"
result ping "$(grep -o '[0-9]* packets received' /tmp/ping | cut -d' ' -f1)"
in_b iperf3 -s -D > /dev/null 2>&1; sleep 1
in_a iperf3 -c 10.0.0.2 -t @SECONDS@ -J > /tmp/tcp 2>&1 || fail "iperf3: $(tail -n 3 /tmp/tcp)"
result tcp "$(grep -A 20 sum_received /tmp/tcp | grep -m 1 bits_per_second | tr -dc '0-9.' | cut -d. -f1)"
in_a iperf3 -R -c 10.0.0.2 -t @SECONDS@ -J > /tmp/tcp 2>&1 || fail "iperf3 -R: $(tail -n 3 /tmp/tcp)"
result tcp-back "$(grep -A 20 sum_received /tmp/tcp | grep -m 1 bits_per_second | tr -dc '0-9.' | cut -d. -f1)"
in_a ethtool -S e0 > /tmp/stats || fail stats
result tso "$(in_a ethtool -k e0 | grep -c 'tcp-segmentation-offload: on')"
in_a ethtool -d e0 > /tmp/dump || fail dump
in_a ethtool -x e0 > /tmp/rss || fail rss
in_a ethtool -T e0 > /tmp/ts || fail ts
in_a ethtool -a e0 > /tmp/pause || fail pause
in_a ip link set e0 mtu 9000; in_b ip link set e0 mtu 9000; sleep 1; carrier a; carrier b
in_a ping -c 5 -i 0.1 -q -s 8000 10.0.0.2 > /tmp/ping 2>&1 || fail "ping: $(tail -n 2 /tmp/ping)"
result jumbo "$(grep -o '[0-9]* packets received' /tmp/ping | cut -d' ' -f1)"
ip netns del a; ip netns del b
"#;

/// Each chip.
pub fn run(context: &Context<'_>, facts: &mut Vec<String>) -> Result<()> {
    let all = [
        ("lan7430-a0", presets::lan7430_a0()),
        ("lan7430-b0", presets::lan7430_b0()),
        ("lan7431-b0", presets::lan7431_b0()),
        ("pci11010-b0", with_phy(presets::pci11010_b0())),
        ("pci11414-b0", with_phy(presets::pci11414_b0())),
    ];
    // The short form has one of each way of interrupts.
    let chosen = if context.full { &all[..] } else { &[all[0].clone(), all[4].clone()][..] };
    for (name, params) in chosen {
        one(context, name, params, facts)?;
    }
    Ok(())
}

/// With an external PHY: without one the stock driver wants a fixed link of 2.5 Gbit/s, which phylink
/// refuses on SGMII.
fn with_phy(params: Params) -> Params {
    Params { phy: Some(0), ..params }
}

/// Two served controllers with a wire between.
fn serve(context: &Context<'_>, params: &Params) -> Result<[Served; 2]> {
    let (one, two) = Wire::pair(WireParams::default());
    let wire = one.wire();
    let make = |slot, port, last: u8| -> Result<Served> {
        let mac = Some([0x02, 0x80, 0x0f, 0, 0, last]);
        let mut model = Lan743x::new(Params { mac, ..params.clone() });
        model.connect(port);
        Served::device(context.sockets(), slot, Box::new(model), false)
    };
    let sides = [make(4, one, 1)?, make(5, two, 2)?];
    for (side, served) in sides.iter().enumerate() {
        let handle = served.server.clone();
        wire.tell(side, move |token| {
            handle.post_event(token);
        });
    }
    Ok(sides)
}

fn one(context: &Context<'_>, name: &str, params: &Params, facts: &mut Vec<String>) -> Result<()> {
    let sides = serve(context, params)?;
    let traffic = TRAFFIC
        .replace("@A@", &sides[0].address())
        .replace("@B@", &sides[1].address())
        .replace("@SECONDS@", context.pick("3", "10"));
    let script = format!("{BEGIN}{traffic}rmmod lan743x || fail rmmod\n");
    let kernel = &context.kernels.new;
    let files = context.files(&script)?.debian_programs(&PROGRAMS)?.kernel_modules(kernel, &MODULES)?;
    let mut spec = Spec::linux(&kernel.image, files.pack(&context.folder.file("initramfs.cpio"))?);
    spec.limit = Duration::from_secs(context.pick(120, 300));
    let transcript = context.boot(&format!("nic-stock-{name}"), spec, &sides, silent)?;
    transcript.check()?;
    let get = |what: &str| -> Result<u64> {
        let value = transcript.one(what)?;
        match value.as_u64() {
            Some(value) => Ok(value),
            None => bail!("{what}: {value}"),
        }
    };
    if get("ping")? != 20 || get("jumbo")? != 5 || get("tcp")? == 0 || get("tcp-back")? == 0 {
        bail!("{name}: ping {}, jumbo {}", get("ping")?, get("jumbo")?);
    }
    facts.push(format!(
        "{name}: 20 of 20 pings, TCP {} and {} Mbit/s, jumbo frames",
        get("tcp")? / 1_000_000,
        get("tcp-back")? / 1_000_000
    ));
    sides.into_iter().try_for_each(Served::stop)
}

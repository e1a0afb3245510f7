//! Two TCP/IP stacks over two controllers of the simulator.

#[path = "../../../lan743x/tests/common/mod.rs"]
mod common;

use common::*;
use smoltcp::iface::{Config, Interface, SocketSet};
use smoltcp::phy::{Checksum, Device as _};
use smoltcp::socket::tcp;
use smoltcp::time::Instant;
use smoltcp::wire::{EthernetAddress, IpAddress, IpCidr};
use tombolo_hal::net::{MacAddress, TxQueue};
use tombolo_sim::host::SimDma;
use tombolo_sim::lan743x::{Params, presets};
use tombolo_smoltcp::{Device, DeviceConfig, Pool};

type Nic = Device<Tx, Rx, SimDma>;

/// A stack on the first queues of a station.
struct Host {
    device: Nic,
    interface: Interface,
    sockets: SocketSet<'static>,
}

impl Host {
    fn new(station: &mut Station, last: u8, config: DeviceConfig) -> Self {
        let size = station.nic.buffer_size(2);
        let (tx, rx) = (station.tx.remove(0), station.rx.remove(0));
        let mut device = Device::new(tx, rx, Pool::new(64, size), Pool::new(64, size), config);
        let MacAddress(mac) = station.nic.mac_address();
        let hardware = Config::new(EthernetAddress(mac).into());
        let mut interface = Interface::new(hardware, &mut device, Instant::ZERO);
        interface.update_ip_addrs(|addresses| {
            addresses.push(IpCidr::new(IpAddress::v4(10, 0, 0, last), 24)).unwrap();
        });
        Self { device, interface, sockets: SocketSet::new(vec![]) }
    }

    fn turn(&mut self, now_ns: u64) {
        let now = Instant::from_micros((now_ns / 1_000) as i64);
        self.device.poll();
        self.interface.poll(now, &mut self.device, &mut self.sockets);
        self.device.flush();
    }
}

fn socket() -> tcp::Socket<'static> {
    let buffer = || tcp::SocketBuffer::new(vec![0; 32 << 10]);
    tcp::Socket::new(buffer(), buffer())
}

/// Sends `total` bytes from one stack to the other and compares.
fn stream(params: Params, config: DeviceConfig, total: usize) -> (Host, Host) {
    let mac = |last| Some([2, 0, 0, 0, 0, last]);
    let (one, two) = (Params { mac: mac(1), ..params.clone() }, Params { mac: mac(2), ..params });
    let mut pair = Pair::new(one, two, Setup::default());
    let (mut a, mut b) = (Host::new(&mut pair.a, 1, config), Host::new(&mut pair.b, 2, config));
    let (from, to) = (a.sockets.add(socket()), b.sockets.add(socket()));
    b.sockets.get_mut::<tcp::Socket>(to).listen(7000).unwrap();
    let client = a.sockets.get_mut::<tcp::Socket>(from);
    client.connect(a.interface.context(), (IpAddress::v4(10, 0, 0, 2), 7000), 49_152).unwrap();
    let data: Vec<u8> = (0..total).map(|index| (index * 7 / 3) as u8).collect();
    let (mut sent, mut got) = (0, vec![]);
    for _ in 0..200_000 {
        pair.fabric.advance(5_000);
        let client = a.sockets.get_mut::<tcp::Socket>(from);
        if client.can_send() && sent < total {
            sent += client.send_slice(&data[sent..]).unwrap();
        }
        a.turn(pair.fabric.now_ns());
        b.turn(pair.fabric.now_ns());
        let server = b.sockets.get_mut::<tcp::Socket>(to);
        while server.can_recv() {
            server.recv(|bytes| (bytes.len(), got.extend_from_slice(bytes))).unwrap();
        }
        if got.len() == total {
            break;
        }
    }
    assert_eq!(got.len(), total);
    assert!(got == data, "the stream was changed");
    (a, b)
}

#[test]
fn a_stream_arrives_whole_with_the_devices_checksums_and_without() {
    for params in [presets::lan7430_a0(), presets::pci11414_b0()] {
        for tx_checksums in [false, true] {
            let config = DeviceConfig { tx_checksums, rx_checksums: tx_checksums, ..DeviceConfig::default() };
            let (a, b) = stream(params.clone(), config, 300_000);
            assert_eq!((a.device.stats().not_sent, b.device.stats().bad_checksums), (0, 0));
            let (tx, _) = a.device.into_queues();
            assert!(tx.free() > 0);
        }
    }
}

#[test]
fn smoltcp_is_told_the_truth_about_size_and_checksums() {
    let config = DeviceConfig { mtu: 9000, tx_checksums: true, ..DeviceConfig::default() };
    let mut pair = Pair::new(presets::lan7430_b0(), presets::lan7430_b0(), Setup::default());
    let host = Host::new(&mut pair.a, 1, config);
    let told = host.device.capabilities();
    assert_eq!((told.max_transmission_unit, host.device.free_buffers()), (9014, 64));
    assert!(matches!(told.checksum.tcp, Checksum::Rx) && matches!(told.checksum.icmpv4, Checksum::Both));
}

#[test]
fn without_a_carrier_nothing_is_sent() {
    let mut pair = Pair::new(presets::lan7430_b0(), presets::lan7430_b0(), Setup::default());
    let mut host = Host::new(&mut pair.a, 1, DeviceConfig::default());
    host.device.set_carrier(false);
    assert!(host.device.transmit(Instant::ZERO).is_none());
    host.device.set_carrier(true);
    assert!(host.device.transmit(Instant::ZERO).is_some());
}

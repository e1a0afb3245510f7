//! Transfers against the model, in all formats.

mod common;

use common::*;
use dw_edma::{ChannelId, Format, Location};

fn rigs(irqs: Irqs) -> Vec<Rig> {
    let mut all = Vec::new();
    for format in Format::ALL {
        all.push(Rig::remote(format, 2, 2, irqs));
        all.push(Rig::local(format, 2, 2, irqs));
    }
    all
}

#[test]
fn every_byte_arrives_in_every_format_location_and_interrupt_mode() {
    for irqs in [Irqs::One, Irqs::PerChannel, Irqs::Polling] {
        for mut rig in rigs(irqs) {
            let what = format!("{:?} {:?} {irqs:?}", rig.shared.config().format, rig.location());
            println!("{what}");
            for id in all_ids(&rig) {
                let mut ch = rig.owned(id);
                for (len, pieces) in [(1, 1), (4096, 1), (100_003, 7), (300_000, 200)] {
                    transfer(&mut rig, &mut ch, &pattern(len as u64, len), pieces);
                }
                let stats = *ch.channel().stats();
                assert_eq!((stats.completed, stats.failed, stats.violations), (4, 0, 0), "{what}");
                assert_eq!(stats.found_by_looking, 0, "{what}");
            }
            assert_clean(&rig);
        }
    }
}

#[test]
fn many_channels_move_data_at_once() {
    for (format, n) in
        [(Format::Legacy, 8), (Format::Unroll, 8), (Format::HdmaCompat, 8), (Format::HdmaNative, 64)]
    {
        let mut rig = Rig::remote(format, n, n, Irqs::One);
        let ids: Vec<ChannelId> = all_ids(&rig);
        let mut channels: Vec<Owned> = ids.iter().map(|id| rig.owned(*id)).collect();
        let mut sent = Vec::new();
        for (ch, id) in channels.iter_mut().zip(&ids) {
            let direction = rig.direction(*id);
            let data = pattern(sent.len() as u64 + 7, 20_000);
            if direction == tombolo_hal::dmaengine::Direction::DevToMem {
                rig.device_write(*id, 0, &data);
            }
            let buffer = if direction == tombolo_hal::dmaengine::Direction::MemToDev {
                data.clone()
            } else {
                vec![0; data.len()]
            };
            let config = rig.config(*id, 0);
            ch.submit_one(rig.prepare(buffer, direction), direction, Default::default(), Some(&config))
                .unwrap();
            sent.push(data);
        }
        channels.iter_mut().for_each(|ch| ch.issue_pending());
        for ((ch, id), data) in channels.iter_mut().zip(&ids).zip(&sent) {
            let finished = wait(&mut rig, ch);
            let back = finished.buffers.into_iter().next().unwrap().into_inner();
            let got = if rig.location() == Location::Remote && id.kind == dw_edma::ChannelKind::Read {
                rig.device_read(*id, 0, data.len())
            } else {
                back
            };
            assert!(got == *data, "{format} {id}");
        }
        assert_clean(&rig);
    }
}

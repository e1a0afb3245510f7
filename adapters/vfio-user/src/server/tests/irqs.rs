use super::*;
use crate::protocol::{IrqAction, IrqData, SetIrqs};
use rustix::event::{EventfdFlags, eventfd};
use tombolo_sim::device::Width;

const INTX: u32 = 0;
const MSI: u32 = 1;
const MSIX: u32 = 2;

fn event() -> OwnedFd {
    eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).unwrap()
}

/// How often it was signalled since the last look.
fn count(event: &OwnedFd) -> u64 {
    let mut bytes = [0; 8];
    rustix::io::read(event, &mut bytes).map_or(0, |_| u64::from_ne_bytes(bytes))
}

impl Talk<'_> {
    fn set(
        &mut self,
        index: u32,
        action: IrqAction,
        data: IrqData<'_>,
        start: u32,
        count: u32,
    ) -> Result<(), Errno> {
        self.set_with(SetIrqs { action, data, index, start, count }, vec![])
    }

    fn set_with(&mut self, request: SetIrqs<'_>, fds: Vec<OwnedFd>) -> Result<(), Errno> {
        let mut body = Vec::new();
        request.put(&mut body);
        self.call(Command::SetIrqs as u16, &body, fds).map(|answer| assert!(answer.is_empty()))
    }

    fn connect(&mut self, index: u32, start: u32, events: &[&OwnedFd]) -> Result<(), Errno> {
        let (action, data) = (IrqAction::Trigger, IrqData::EventFd);
        let fds = events.iter().map(|event| event.try_clone().unwrap()).collect();
        self.set_with(SetIrqs { action, data, index, start, count: events.len() as u32 }, fds)
    }

    fn enable_msix(&mut self, control: u16) {
        let at = self.capability(0x11);
        self.config_write(at + 2, &control.to_le_bytes());
    }

    /// Message address 0xfee01000, data 0x4020.
    fn enable_msi(&mut self, vectors_log2: u16) {
        let at = self.capability(0x05);
        self.config_write(at + 4, &0xfee0_1000u32.to_le_bytes());
        self.config_write(at + 12, &0x4020u16.to_le_bytes());
        self.config_write(at + 2, &(vectors_log2 << 4 | 1).to_le_bytes());
    }

    fn message(&mut self, rig: &Rig, address: u64, data: u32) -> Result<Vec<u8>, DmaFault> {
        self.register(register::ADDRESS, address);
        self.register(register::MESSAGE, data.into());
        rig.take_result()
    }
}

#[test]
fn vectors_of_msix_are_signalled_once_they_are_enabled_and_connected() {
    let rig = Rig::new();
    let mut talk = Talk::ready(&rig);
    let (zero, last) = (event(), event());
    talk.connect(MSIX, 0, &[&zero]).unwrap();
    talk.register(register::RAISE, 0);
    assert_eq!(count(&zero), 0, "not enabled");
    talk.enable_msix(0x8000);
    talk.register(register::RAISE, 0);
    talk.register(register::RAISE, 0);
    assert_eq!(count(&zero), 2);
    // Not connected yet: pending, and sent when it is.
    talk.register(register::RAISE, 39);
    assert_eq!(talk.read(0, 0x1800, 8), Ok(vec![0, 0, 0, 0, 0x80, 0, 0, 0]));
    talk.connect(MSIX, 39, &[&last]).unwrap();
    assert_eq!((count(&last), talk.read(0, 0x1800, 8)), (1, Ok(vec![0; 8])));
    talk.register(register::RAISE, 40);
    assert_eq!(rig.server.counters().msix_interrupts, 3);
}

#[test]
fn a_masked_function_remembers_its_vectors() {
    let rig = Rig::new();
    let mut talk = Talk::ready(&rig);
    let zero = event();
    talk.connect(MSIX, 0, &[&zero]).unwrap();
    talk.enable_msix(0xc000);
    talk.register(register::RAISE, 0);
    assert_eq!(count(&zero), 0);
    assert_eq!(talk.read(0, 0x1800, 1), Ok(vec![1]));
    talk.enable_msix(0x8000);
    assert_eq!(count(&zero), 1);
}

#[test]
fn the_msix_table_is_kept_and_takes_whole_words_only() {
    let rig = Rig::new();
    let mut talk = Talk::ready(&rig);
    assert_eq!(
        talk.read(0, 0x1000, 16),
        Ok([0, 0, 0, 1u32].map(u32::to_le_bytes).concat()),
        "masked after reset"
    );
    talk.write(0, 0x1010, &0xfee0_1003_u64.to_le_bytes()).unwrap();
    talk.write(0, 0x1018, &[0x21, 0x40, 0, 0]).unwrap();
    talk.write(0, 0x1018, &[0xff]).unwrap();
    talk.write(0, 0x1800, &[0xff; 4]).unwrap();
    assert_eq!(talk.read(0, 0x1010, 12), Ok([0xfee0_1000, 0, 0x4021u32].map(u32::to_le_bytes).concat()));
    assert_eq!(talk.read(0, 0x1800, 4), Ok(vec![0; 4]), "pending bits are read-only");
    assert!(rig.log.lock().unwrap().writes.is_empty(), "the model never hears of it");
}

#[test]
fn descriptors_must_be_eventfds_and_as_many_as_vectors() {
    let rig = Rig::new();
    let mut talk = Talk::ready(&rig);
    let one = event();
    let request = |start, count| SetIrqs {
        action: IrqAction::Trigger,
        data: IrqData::EventFd,
        index: MSIX,
        start,
        count,
    };
    for (start, count, fds) in
        [(0, 2, 1), (0, 1, 2), (39, 2, 2), (40, 1, 1), (0, 0, 0), (u32::MAX, 1, 1), (0, 41, 0)]
    {
        let fds = (0..fds).map(|_| one.try_clone().unwrap()).collect();
        assert_eq!(talk.set_with(request(start, count), fds), Err(Errno::INVAL), "{start} {count}");
    }
    let pipe: OwnedFd = std::io::pipe().unwrap().1.into();
    assert_eq!(talk.set_with(request(0, 1), vec![pipe]), Err(Errno::INVAL));
    assert_eq!(talk.set_with(request(0, 1), vec![copy_of(&memfd(1))]), Err(Errno::INVAL));
    let error_index = SetIrqs { index: 3, ..request(0, 1) };
    assert_eq!(talk.set_with(error_index, vec![one.try_clone().unwrap()]), Err(Errno::INVAL));
    let by_event = SetIrqs { action: IrqAction::Unmask, ..request(0, 1) };
    assert_eq!(talk.set_with(by_event, vec![one]), Err(Errno::OPNOTSUPP));
}

#[test]
fn vectors_are_disconnected_one_by_one_or_all_together() {
    let rig = Rig::new();
    let mut talk = Talk::ready(&rig);
    let (zero, one) = (event(), event());
    talk.enable_msix(0x8000);
    talk.connect(MSIX, 0, &[&zero, &one]).unwrap();
    talk.set(MSIX, IrqAction::Trigger, IrqData::EventFd, 0, 1).unwrap();
    talk.register(register::RAISE, 0);
    talk.register(register::RAISE, 1);
    assert_eq!((count(&zero), count(&one)), (0, 1));
    talk.set(MSIX, IrqAction::Trigger, IrqData::None, 0, 0).unwrap();
    talk.register(register::RAISE, 1);
    assert_eq!(count(&one), 0);
}

#[test]
fn a_client_can_trigger_and_mask_vectors_itself() {
    let rig = Rig::new();
    let mut talk = Talk::ready(&rig);
    let (zero, one) = (event(), event());
    talk.enable_msix(0x8000);
    talk.connect(MSIX, 0, &[&zero, &one]).unwrap();
    talk.set(MSIX, IrqAction::Trigger, IrqData::None, 0, 2).unwrap();
    assert_eq!((count(&zero), count(&one)), (1, 1));
    talk.set(MSIX, IrqAction::Trigger, IrqData::Bool(&[0, 1]), 0, 2).unwrap();
    assert_eq!((count(&zero), count(&one)), (0, 1));
    talk.set(MSIX, IrqAction::Mask, IrqData::Bool(&[1, 0]), 0, 2).unwrap();
    talk.register(register::RAISE, 0);
    talk.register(register::RAISE, 1);
    assert_eq!((count(&zero), count(&one)), (0, 1));
    talk.set(MSIX, IrqAction::Unmask, IrqData::None, 0, 2).unwrap();
    assert_eq!((count(&zero), count(&one)), (1, 0));
}

#[test]
fn msi_sends_the_vectors_that_are_enabled_and_not_masked() {
    let rig = Rig::new();
    let mut talk = Talk::ready(&rig);
    let events: Vec<_> = (0..4).map(|_| event()).collect();
    talk.connect(MSI, 0, &events.iter().collect::<Vec<_>>()).unwrap();
    talk.enable_msi(1);
    let mask = talk.capability(0x05) + 16;
    for vector in 0..4 {
        talk.register(register::RAISE, vector);
    }
    // Two are enabled: the others share them.
    assert_eq!(events.iter().map(count).collect::<Vec<_>>(), [2, 2, 0, 0]);
    talk.config_write(mask, &2u32.to_le_bytes());
    talk.register(register::RAISE, 1);
    assert_eq!((count(&events[1]), talk.read(CONFIG, mask + 4, 4)), (0, Ok(vec![2, 0, 0, 0])));
    talk.config_write(mask, &0u32.to_le_bytes());
    assert_eq!((count(&events[1]), talk.read(CONFIG, mask + 4, 4)), (1, Ok(vec![0; 4])));
    assert_eq!(rig.server.counters().msi_interrupts, 5);
}

#[test]
fn a_message_of_msi_signals_its_vector() {
    let rig = Rig::new();
    let mut talk = Talk::ready(&rig);
    let events: Vec<_> = (0..4).map(|_| event()).collect();
    talk.connect(MSI, 0, &events.iter().collect::<Vec<_>>()).unwrap();
    talk.enable_msi(2);
    assert_eq!(talk.message(&rig, 0xfee0_1000, 0x4023), Ok(vec![]));
    // A plain write to where an x86 machine listens is the same.
    talk.register(register::ADDRESS, 0xfee0_1000);
    talk.register(register::WRITE, 0x4021);
    assert_eq!(events.iter().map(count).collect::<Vec<_>>(), [0, 1, 0, 1]);
    // Old messages are no vector's, and without a client there is nobody to write to.
    assert_eq!(talk.message(&rig, 0xfee0_1000, 0x4024), Ok(vec![]));
    assert_eq!(talk.message(&rig, 0xfee0_2000, 0x4020), Ok(vec![]));
    assert_eq!(events.iter().map(count).collect::<Vec<_>>(), [0; 4]);
    assert_eq!(rig.server.counters().refused_messages, 2);
}

#[test]
fn only_messages_leave_the_maps() {
    let rig = Rig::new();
    let mut talk = Talk::ready(&rig);
    talk.register(register::ADDRESS, 0x5_0000);
    talk.register(register::WRITE, 1);
    assert!(matches!(rig.log.lock().unwrap().results[..], [.., Err(DmaFault::Unmapped(0x5_0000))]));
    // A message into memory that is mapped is a write there.
    let file = memfd(0x1000);
    let map = DmaMap { flags: MAP_READ | MAP_WRITE, offset: 0, address: 0x5_0000, size: 0x1000 };
    talk.map(map, vec![copy_of(&file)]).unwrap();
    assert_eq!(talk.message(&rig, 0x5_0010, 0x0403_0201), Ok(vec![]));
    let mut bytes = [0; 4];
    std::os::unix::fs::FileExt::read_exact_at(&file, &mut bytes, 0x10).unwrap();
    assert_eq!(bytes, [1, 2, 3, 4]);
}

#[test]
fn lost_interrupts_are_counted_whatever_their_kind() {
    let rig = Rig::new();
    let mut talk = Talk::ready(&rig);
    let zero = event();
    talk.connect(MSIX, 0, &[&zero]).unwrap();
    talk.enable_msix(0x8000);
    rig.server.shared.lose_interrupts(2);
    talk.register(register::RAISE, 0);
    assert_eq!(talk.message(&rig, 0xfee0_2000, 1), Ok(vec![]), "the engine hears nothing of it");
    assert_eq!(count(&zero), 0);
    talk.register(register::RAISE, 0);
    assert_eq!(count(&zero), 1);
    let counters = rig.server.counters();
    assert_eq!((counters.lost_interrupts, counters.msix_interrupts), (2, 1));
}

#[test]
fn the_pin_is_a_level_and_masks_itself() {
    let rig = Rig::new();
    let mut talk = Talk::ready(&rig);
    let pin = event();
    talk.register(register::PIN, 1);
    talk.connect(INTX, 0, &[&pin]).unwrap();
    assert_eq!(count(&pin), 1, "it was up when it was connected");
    talk.register(register::PIN, 1);
    assert_eq!(count(&pin), 0, "masked");
    talk.set(INTX, IrqAction::Unmask, IrqData::None, 0, 1).unwrap();
    assert_eq!(count(&pin), 1, "still up");
    talk.register(register::PIN, 0);
    talk.set(INTX, IrqAction::Unmask, IrqData::None, 0, 1).unwrap();
    assert_eq!(count(&pin), 0);
    assert_eq!(talk.config_read16(6) & 8, 0);
    // Switched off, it shows in the status register only.
    talk.config_write(COMMAND, &(ON | 0x400).to_le_bytes());
    talk.register(register::PIN, 1);
    assert_eq!((count(&pin), talk.config_read16(6) & 8), (0, 8));
    talk.config_write(COMMAND, &ON.to_le_bytes());
    assert_eq!(count(&pin), 1);
    assert_eq!(rig.server.counters().intx_interrupts, 3);
}

#[test]
fn with_messages_enabled_there_is_no_pin() {
    let rig = Rig::new();
    let mut talk = Talk::ready(&rig);
    let pin = event();
    talk.connect(INTX, 0, &[&pin]).unwrap();
    talk.enable_msix(0x8000);
    talk.register(register::PIN, 1);
    assert_eq!(count(&pin), 0);
    talk.enable_msix(0);
    assert_eq!(count(&pin), 1);
}

#[test]
fn a_full_counter_does_not_make_the_server_wait() {
    let rig = Rig::new();
    let mut talk = Talk::ready(&rig);
    // Blocking, as the client made it, and one short of full.
    let full = eventfd(0, EventfdFlags::CLOEXEC).unwrap();
    rustix::io::write(&full, &(u64::MAX - 1).to_ne_bytes()).unwrap();
    talk.enable_msix(0x8000);
    talk.connect(MSIX, 0, &[&full]).unwrap();
    talk.register(register::RAISE, 0);
    assert_eq!(rig.log.lock().unwrap().writes.last(), Some(&(register::RAISE, Width::W64, 0)));
    assert_eq!(count(&full), u64::MAX - 1);
}

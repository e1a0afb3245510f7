use super::{Clock, device};
use crate::pci::command::{read, set_bus_master, set_intx_disabled, set_memory_enabled};
use crate::pci::{CapabilityId, PciError, PowerState, power_state, set_power_state};

#[test]
fn each_switch_moves_its_own_bit() {
    let cfg = device();
    set_memory_enabled(&cfg, true).unwrap();
    assert_eq!(cfg.peek32(0x04), Some(0x2));
    set_bus_master(&cfg, true).unwrap();
    assert_eq!(cfg.peek32(0x04), Some(0x6));
    set_intx_disabled(&cfg, true).unwrap();
    assert_eq!(cfg.peek32(0x04), Some(0x406));
    set_memory_enabled(&cfg, false).unwrap();
    set_bus_master(&cfg, false).unwrap();
    let command = read(&cfg).unwrap();
    assert_eq!((command.memory(), command.bus_master(), command.intx_disable()), (false, false, true));
    set_intx_disabled(&cfg, false).unwrap();
    assert_eq!(cfg.peek32(0x04), Some(0));
}

#[test]
fn status_bits_are_not_cleared_by_the_way() {
    let cfg = device().with_register(0x04, 0xf900_0000, 0x0547);
    set_bus_master(&cfg, true).unwrap();
    assert_eq!(cfg.peek32(0x04), Some(0xf900_0004));
}

#[test]
fn a_function_that_goes_on_mastering_is_told() {
    let cfg = device().with_register(0x04, 0x0006, 0);
    assert_eq!(
        set_bus_master(&cfg, false),
        Err(PciError::RegisterRefused { offset: 4, wanted: 2, found: 6 })
    );
}

#[test]
fn a_pulled_device_is_gone() {
    let cfg = device();
    cfg.remove();
    assert_eq!(set_bus_master(&cfg, false), Err(PciError::DeviceGone));
    assert_eq!(set_memory_enabled(&cfg, true), Err(PciError::DeviceGone));
    assert_eq!(read(&cfg), Err(PciError::DeviceGone));
}

#[cfg(feature = "mock")]
#[test]
fn a_switch_reads_writes_and_reads_back() {
    use crate::pci::MockConfigSpace;
    use mockall::{Sequence, predicate::eq};

    let mut cfg = MockConfigSpace::new();
    let mut order = Sequence::new();
    cfg.expect_read16().with(eq(4)).times(1).in_sequence(&mut order).return_const(0x0406u16);
    cfg.expect_write16().with(eq(4), eq(0x0402)).times(1).in_sequence(&mut order).return_const(());
    cfg.expect_read16().with(eq(4)).times(1).in_sequence(&mut order).return_const(0x0402u16);
    set_bus_master(&cfg, false).unwrap();
}

#[test]
fn power_states_take_their_time() {
    // Control and status: D3hot, wake-up signalled (write one to clear).
    let cfg = device()
        .with_capability(CapabilityId::POWER_MANAGEMENT, 0x40, &[0x03, 0xc8])
        .with_register(0x44, 0x8003, 0x0103)
        .with_clear_bits(0x44, 0x8000);
    let mut clock = Clock::default();
    assert_eq!(power_state(&cfg), Ok(Some(PowerState::D3Hot)));
    set_power_state(&cfg, &mut clock, PowerState::D0).unwrap();
    assert_eq!(power_state(&cfg), Ok(Some(PowerState::D0)));
    assert_eq!(cfg.peek32(0x44), Some(0x8000), "wake-up status is not ours to clear");
    assert_eq!(clock.ms(), 10);
    set_power_state(&cfg, &mut clock, PowerState::D2).unwrap();
    assert_eq!(clock.ns, 10_200_000);
}

#[test]
fn a_refused_power_state_is_told() {
    let cfg =
        device().with_capability(CapabilityId::POWER_MANAGEMENT, 0x40, &[0x03, 0]).with_register(0x44, 0, 0);
    assert_eq!(
        set_power_state(&cfg, &mut Clock::default(), PowerState::D1),
        Err(PciError::RegisterRefused { offset: 0x44, wanted: 1, found: 0 })
    );
    let plain = device();
    assert_eq!(power_state(&plain), Ok(None));
    let id = CapabilityId::POWER_MANAGEMENT;
    assert_eq!(
        set_power_state(&plain, &mut Clock::default(), PowerState::D0),
        Err(PciError::CapabilityMissing { id })
    );
}

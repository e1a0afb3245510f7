//! Which time stamp belongs to which frame.

use super::stamps::{PtpMessage, TX_STAMPS, TxStamp};

#[derive(Debug)]
struct Request<T> {
    channel: u8,
    message: Option<PtpMessage>,
    since_us: u64,
    token: T,
}

/// Frames whose time stamps have not come yet: at most four, as many as the device keeps.
///
/// A time stamp goes to the frame whose message it names, not to the oldest, so a lost one delays no
/// other. What is known to be lost, or has waited too long, is given back.
#[derive(Debug)]
pub struct StampRequests<T> {
    /// Oldest first, without gaps.
    slots: [Option<Request<T>>; TX_STAMPS],
}

impl<T> Default for StampRequests<T> {
    fn default() -> Self {
        Self { slots: [const { None }; TX_STAMPS] }
    }
}

impl<T> StampRequests<T> {
    /// How many frames wait.
    pub fn len(&self) -> usize {
        self.slots.iter().flatten().count()
    }

    /// Whether no frame waits.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether another frame may ask for a time stamp. Ask this before the frame is made, and send it
    /// without a time stamp if not.
    pub fn has_room(&self) -> bool {
        self.len() < TX_STAMPS
    }

    /// A frame of transmit channel `channel` asks for a time stamp: after it was pushed, before the kick.
    /// `message` is the PTP message in it ([`PtpMessage::of_frame`]), `now_us` any clock that counts
    /// microseconds.
    ///
    /// # Errors
    /// The token, if four wait already.
    pub fn request(
        &mut self,
        channel: u8,
        message: Option<PtpMessage>,
        now_us: u64,
        token: T,
    ) -> Result<(), T> {
        let request = Request { channel, message, since_us: now_us, token };
        match self.slots.iter_mut().find(|slot| slot.is_none()) {
            Some(slot) => {
                *slot = Some(request);
                Ok(())
            }
            None => Err(request.token),
        }
    }

    /// The frame that a time stamp belongs to: the oldest one with its message, else the oldest one that is
    /// no PTP message. `None` if that was given up already.
    ///
    /// A channel sends in order, so older frames of the same channel have lost theirs: they go to `lost`.
    pub fn deliver(&mut self, stamp: &TxStamp, mut lost: impl FnMut(T)) -> Option<T> {
        let has = |message: Option<PtpMessage>| {
            self.slots.iter().position(|slot| slot.as_ref().is_some_and(|request| request.message == message))
        };
        let place = has(Some(stamp.message)).or_else(|| has(None))?;
        let found = self.slots.get_mut(place)?.take()?;
        for slot in self.slots.iter_mut().take(place) {
            if let Some(request) = slot.take_if(|request| request.channel == found.channel) {
                lost(request.token);
            }
        }
        self.close_gaps();
        Some(found.token)
    }

    /// Gives back a frame that has waited for `age_us` or longer. Call it until it gives `None`, now and
    /// then and when there is no room.
    pub fn expire(&mut self, now_us: u64, age_us: u64) -> Option<T> {
        let slot = self.slots.iter_mut().find(|slot| {
            slot.as_ref().is_some_and(|request| now_us.saturating_sub(request.since_us) >= age_us)
        })?;
        let token = slot.take()?.token;
        self.close_gaps();
        Some(token)
    }

    /// Gives back the oldest frame, whatever became of it: to be called until it gives `None` when the
    /// interface goes down.
    pub fn give_up(&mut self) -> Option<T> {
        let token = self.slots.first_mut()?.take()?.token;
        self.close_gaps();
        Some(token)
    }

    fn close_gaps(&mut self) {
        let mut free = 0;
        for index in 0..TX_STAMPS {
            if self.slots.get(index).is_some_and(Option::is_some) {
                self.slots.swap(free, index);
                free += 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::vec::Vec;
    use tombolo_hal::net::Timestamp;

    fn sync(sequence: u16) -> PtpMessage {
        PtpMessage { kind: PtpMessage::SYNC, sequence }
    }

    fn stamp(sequence: u16) -> TxStamp {
        TxStamp { time: Timestamp::default(), message: sync(sequence), source_crc: 0 }
    }

    #[test]
    fn a_lost_time_stamp_does_not_shift_the_others() {
        let mut requests = StampRequests::default();
        for sequence in 1..=3 {
            requests.request(0, Some(sync(sequence)), 0, sequence).unwrap();
        }
        let mut lost = Vec::new();
        assert_eq!(requests.deliver(&stamp(2), |token| lost.push(token)), Some(2));
        assert_eq!(lost, [1]);
        assert_eq!(requests.deliver(&stamp(3), |_| panic!()), Some(3));
        assert!(requests.is_empty());
    }

    #[test]
    fn channels_overtake_each_other() {
        let mut requests = StampRequests::default();
        requests.request(0, Some(sync(1)), 0, 1).unwrap();
        requests.request(1, Some(sync(2)), 0, 2).unwrap();
        assert_eq!(requests.deliver(&stamp(2), |_| panic!()), Some(2));
        assert_eq!(requests.deliver(&stamp(1), |_| panic!()), Some(1));
        assert_eq!(requests.deliver(&stamp(1), |_| panic!()), None);
    }

    #[test]
    fn a_frame_that_is_no_message_takes_what_fits_no_other() {
        let mut requests = StampRequests::default();
        requests.request(0, None, 0, 'a').unwrap();
        requests.request(1, Some(sync(7)), 0, 'b').unwrap();
        assert_eq!(requests.deliver(&stamp(7), |_| panic!()), Some('b'));
        assert_eq!(requests.deliver(&stamp(9), |_| panic!()), Some('a'));
    }

    #[test]
    fn the_fifth_is_refused_until_an_old_one_expires() {
        let mut requests = StampRequests::default();
        for token in 0..4 {
            requests.request(0, Some(sync(token)), u64::from(token), token).unwrap();
        }
        assert!(!requests.has_room());
        assert_eq!(requests.request(0, None, 0, 9), Err(9));
        assert_eq!(requests.expire(100, 100), Some(0));
        assert_eq!(requests.expire(100, 100), None);
        assert!(requests.has_room());
        assert_eq!(requests.give_up(), Some(1));
        assert_eq!(requests.len(), 2);
    }

    proptest! {
        /// Whatever comes, each token comes back exactly once.
        #[test]
        fn tokens_are_neither_lost_nor_doubled(
            steps in prop::collection::vec((0..3_u8, 0..6_u16, 0..2_u8), 0..100),
        ) {
            let mut requests = StampRequests::default();
            let (mut given, mut back) = (0_u32, Vec::new());
            for (now, (what, sequence, channel)) in steps.into_iter().enumerate() {
                match what {
                    0 => {
                        let message = (sequence != 0).then(|| sync(sequence));
                        if let Err(token) = requests.request(channel, message, now as u64, given) {
                            back.push(token);
                        }
                        given += 1;
                    }
                    1 => {
                        let mut lost = Vec::new();
                        back.extend(requests.deliver(&stamp(sequence), |token| lost.push(token)));
                        back.append(&mut lost);
                    }
                    _ => back.extend(requests.expire(now as u64, 10)),
                }
            }
            back.extend(core::iter::from_fn(|| requests.give_up()));
            back.sort_unstable();
            prop_assert_eq!(back, (0..given).collect::<Vec<_>>());
        }
    }
}

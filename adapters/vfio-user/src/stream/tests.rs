use super::*;
use crate::protocol::Command;
use proptest::prelude::*;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;

fn message(id: u16, body: &[u8]) -> Vec<u8> {
    let mut bytes = Header::request(id, Command::RegionRead, body.len(), true).to_bytes();
    bytes.extend_from_slice(body);
    bytes
}

fn fd() -> OwnedFd {
    rustix::event::eventfd(0, rustix::event::EventfdFlags::CLOEXEC).unwrap()
}

fn put(framer: &mut Framer, mut bytes: &[u8], count: usize) {
    let mut fds = Fds { fds: (0..count).map(|_| fd()).collect(), too_many: false };
    while !bytes.is_empty() {
        let room = framer.room();
        let (now, later) = bytes.split_at(room.len().min(bytes.len()));
        room[..now.len()].copy_from_slice(now);
        framer.filled(now.len(), std::mem::take(&mut fds));
        bytes = later;
        if !bytes.is_empty() {
            assert!(framer.next().is_none(), "the caller takes messages first");
        }
    }
}

/// Identifier, body's length, descriptors.
fn next(framer: &mut Framer) -> Option<(u16, usize, usize)> {
    match framer.next()? {
        Received::Message(message) => Some((message.header.id, message.body.len(), message.fds.fds.len())),
        other => panic!("{other:?}"),
    }
}

#[test]
fn descriptors_belong_to_the_last_message_that_has_begun() {
    let mut framer = Framer::new();
    // The kernel gives two messages at once; the second was sent with a descriptor.
    put(&mut framer, &[message(1, &[0; 8]), message(2, &[0; 8])].concat(), 1);
    assert_eq!(next(&mut framer), Some((1, 8, 0)));
    assert_eq!(next(&mut framer), Some((2, 8, 1)));
    // A message whose body follows, and one whose descriptor comes with the body.
    let third = message(3, &[0; 100]);
    put(&mut framer, &third[..20], 2);
    assert_eq!(next(&mut framer), None);
    put(&mut framer, &third[20..], 1);
    assert_eq!(next(&mut framer), Some((3, 100, 3)));
    put(&mut framer, &message(4, &[]), 0);
    assert_eq!(next(&mut framer), Some((4, 0, 0)));
}

#[test]
fn a_message_has_no_more_descriptors_than_we_take() {
    let mut framer = Framer::new();
    let bytes = message(1, &[0; 64]);
    for byte in &bytes[..79] {
        put(&mut framer, &[*byte], 3);
        assert!(framer.next().is_none());
    }
    put(&mut framer, &bytes[79..], 0);
    let Some(Received::Message(message)) = framer.next() else { panic!("no message") };
    assert!(message.fds.too_many && message.fds.fds.len() == MAX_FDS);
}

#[test]
fn a_message_that_is_too_large_is_left_out_and_the_next_one_is_read() {
    let mut framer = Framer::new();
    let size = MAX_MESSAGE as usize + 1;
    let large = message(7, &vec![0xff; size - HEADER_SIZE]);
    put(&mut framer, &large[..100], 1);
    assert!(matches!(framer.next(), Some(Received::TooLarge(header)) if header.id == 7));
    let rest = [&large[100..], &message(8, &[1; 4])].concat();
    put(&mut framer, &rest, 0);
    assert_eq!(next(&mut framer), Some((8, 4, 0)));
}

#[test]
fn a_size_below_the_header_breaks_the_stream() {
    for size in [0u32, 15] {
        let mut framer = Framer::new();
        let header = Header { size, ..Header::request(9, Command::Version, 0, true) };
        put(&mut framer, &header.to_bytes(), 0);
        assert!(matches!(framer.next(), Some(Received::Broken(header)) if header.id == 9));
    }
}

#[test]
fn the_largest_message_is_taken_and_its_room_given_back() {
    let mut framer = Framer::new();
    put(&mut framer, &message(1, &vec![3; MAX_MESSAGE as usize - HEADER_SIZE]), 0);
    assert_eq!(next(&mut framer), Some((1, MAX_MESSAGE as usize - HEADER_SIZE, 0)));
    for id in 2..200 {
        put(&mut framer, &message(id, &[0; 4096]), 0);
        assert_eq!(next(&mut framer), Some((id, 4096, 0)));
    }
    assert!(framer.buffer.len() <= 2 * BUFFER, "{}", framer.buffer.len());
}

#[test]
fn messages_and_descriptors_cross_a_socket() {
    let (ours, theirs) = UnixStream::pair().unwrap();
    let mut stream = Stream::new(ours);
    let (one, two) = (fd(), fd());
    let limit = Duration::from_secs(5);
    for id in 0..20u16 {
        let bytes = message(id, &[id as u8; 40]);
        let fds = [one.as_fd(), two.as_fd()];
        let (head, body) = bytes.split_at(HEADER_SIZE);
        send(theirs.as_fd(), &[head, body], &fds[..usize::from(id % 3)], limit).unwrap();
    }
    for id in 0..20u16 {
        let Ok(Some(Received::Message(message))) = stream.next() else { panic!("no message {id}") };
        assert_eq!((message.header.id, message.body), (id, &[id as u8; 40][..]));
        assert_eq!(message.fds.fds.len(), usize::from(id % 3));
    }
    drop(theirs);
    assert!(stream.next().unwrap().is_none());
}

#[test]
fn a_client_that_sends_too_many_descriptors_is_found_out() {
    let (ours, theirs) = UnixStream::pair().unwrap();
    let mut stream = Stream::new(ours);
    let event = fd();
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(40))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let many = [event.as_fd(); 40];
    assert!(control.push(SendAncillaryMessage::ScmRights(&many)));
    let bytes = message(1, &[]);
    sendmsg(&theirs, &[IoSlice::new(&bytes)], &mut control, SendFlags::empty()).unwrap();
    let Ok(Some(Received::Message(message))) = stream.next() else { panic!("no message") };
    assert!(message.fds.too_many);
}

#[test]
fn who_does_not_read_is_not_waited_for() {
    let (ours, mut theirs) = UnixStream::pair().unwrap();
    let limit = Duration::from_millis(100);
    let bytes = vec![0; 4 << 20];
    let began = Instant::now();
    let error = send(ours.as_fd(), &[&bytes], &[], limit).unwrap_err();
    assert_eq!(error.raw_os_error(), Some(Errno::TIMEDOUT.raw_os_error()));
    assert!(began.elapsed() < Duration::from_secs(5));
    // One that reads a byte now and then is not waited for either.
    let slow = std::thread::spawn(move || {
        let mut bytes = [0; 4096];
        while theirs.read(&mut bytes).is_ok_and(|count| count != 0) {
            std::thread::sleep(Duration::from_millis(10));
        }
    });
    let began = Instant::now();
    assert!(send(ours.as_fd(), &[&bytes], &[], limit).is_err());
    assert!(began.elapsed() < Duration::from_secs(5));
    drop(ours);
    slow.join().unwrap();
}

#[test]
fn a_writer_that_goes_in_the_middle_of_a_message_ends_the_stream() {
    let (ours, mut theirs) = UnixStream::pair().unwrap();
    theirs.write_all(&message(1, &[0; 100])[..50]).unwrap();
    drop(theirs);
    assert!(Stream::new(ours).next().unwrap().is_none());
}

proptest! {
    #[test]
    fn messages_are_found_however_the_stream_is_cut(
        sizes in prop::collection::vec(0usize..3000, 1..40),
        cuts in prop::collection::vec(1usize..5000, 1..40),
    ) {
        let bytes: Vec<u8> =
            sizes.iter().zip(0u16..).flat_map(|(size, id)| message(id, &vec![id as u8; *size])).collect();
        let mut framer = Framer::new();
        let (mut rest, mut cuts, mut found) = (&bytes[..], cuts.into_iter().cycle(), Vec::new());
        while !rest.is_empty() {
            let count = cuts.next().unwrap().min(rest.len()).min(framer.room().len());
            let (now, later) = rest.split_at(count);
            framer.room()[..count].copy_from_slice(now);
            framer.filled(count, Fds::default());
            rest = later;
            while let Some((id, len, _)) = next(&mut framer) {
                prop_assert_eq!(usize::from(id), found.len());
                found.push(len);
            }
        }
        prop_assert_eq!(found, sizes);
    }
}

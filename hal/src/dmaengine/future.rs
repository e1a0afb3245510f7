//! `async` over [`pop_completed`](super::DmaChannel::pop_completed), for any executor.

use core::future::poll_fn;
use core::task::Poll;

pub use atomic_waker::AtomicWaker;

use super::{Completion, DmaChannel};

/// Waits for the next completion. The platform's interrupt handler calls `waker.wake()` after the
/// driver's `on_irq`.
pub async fn next_completion<C: DmaChannel>(channel: &mut C, waker: &AtomicWaker) -> Completion {
    poll_fn(|cx| {
        if let Some(completion) = channel.pop_completed() {
            return Poll::Ready(completion);
        }
        waker.register(cx.waker());
        // An interrupt between the look above and the registration woke nobody: look again.
        match channel.pop_completed() {
            Some(completion) => Poll::Ready(completion),
            None => Poll::Pending,
        }
    })
    .await
}

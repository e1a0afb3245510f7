//! Scatter-gather transfers: several in flight on every channel, each checked at its destination.

use std::collections::VecDeque;

use arrayvec::ArrayVec;
use dw_edma::{ChannelId, direction_of};
use tombolo_hal::dma::{Completed, DataDirection, DmaConstraints, Prepared, Streaming};
use tombolo_hal::dmaengine::{
    Cookie, Direction, Finished, OwnedTransfers, PrepFlags, RefusedReason, SlaveConfig, TxResult,
};

use crate::data::{Data, Differences};
use crate::device_side::{DeviceSide, POISON, Span, check_guards, guard};
use crate::pace::{Due, Heard, Pacer};
use crate::plan::{DEPTH_MAX, Plan, SEGMENTS_MAX, Work};
use crate::platform::Platform;
use crate::progress::Progress;
use crate::rig::{Chan, REST_LIMIT_US, Rig, RigError};
use crate::tally::Tally;

type Owned<P> = OwnedTransfers<Chan<P>, <P as Platform>::Dma, Vec<u8>, DEPTH_MAX, SEGMENTS_MAX>;
type Buffers<P, S> = ArrayVec<Streaming<<P as Platform>::Dma, Vec<u8>, S>, SEGMENTS_MAX>;

/// One channel with what it has to do.
struct Lane<P: Platform> {
    id: ChannelId,
    number: usize,
    direction: Direction,
    transfers: Box<Owned<P>>,
    count: usize,
    next: usize,
    in_flight: VecDeque<(Cookie, usize)>,
    /// Buffers that came back, for the next transfer of the same lengths.
    idle: VecDeque<Vec<Vec<u8>>>,
    heard: Heard,
    given_up: bool,
}

impl<P: Platform> Lane<P> {
    fn is_busy(&self) -> bool {
        !self.in_flight.is_empty() || (!self.given_up && self.next < self.count)
    }
}

/// Runs a plan.
pub struct Runner<'a, P: Platform> {
    rig: &'a mut Rig<P>,
    plan: &'a dyn Plan,
    data: Data<'a>,
    pacer: Pacer,
    progress: &'a Progress,
    tally: Tally,
    device: DeviceSide,
}

impl<'a, P: Platform> Runner<'a, P> {
    /// A runner on `rig`, whose channels are closed.
    pub fn new(
        rig: &'a mut Rig<P>,
        plan: &'a dyn Plan,
        data: Data<'a>,
        pacer: Pacer,
        progress: &'a Progress,
    ) -> Self {
        Self { rig, plan, data, pacer, progress, tally: Tally::default(), device: DeviceSide::default() }
    }

    /// Does everything and closes the channels again.
    ///
    /// # Errors
    /// [`RigError`] if the rig cannot be used. What goes wrong with transfers is in the tally.
    pub fn run(mut self) -> Result<(Tally, Pacer), RigError> {
        let mut lanes = self.open()?;
        self.tally.begin(self.rig);
        let result = self.drive(&mut lanes);
        self.tally.end(self.rig, result);
        for lane in &mut lanes {
            if !lane.in_flight.is_empty() {
                self.give_up(lane, "was stopped");
            }
            self.tally.not_run += (lane.count - lane.next) as u64;
        }
        self.close(lanes)?;
        Ok((self.tally, self.pacer))
    }

    fn open(&mut self) -> Result<Vec<Lane<P>>, RigError> {
        let location = self.rig.spec().location;
        let depth = self.plan.depth().clamp(1, DEPTH_MAX);
        let mut lanes = Vec::new();
        for (number, id) in self.plan.channels().into_iter().enumerate() {
            let segments = self.plan.work(number, 0).lengths.len();
            let channel = self.rig.open(id, depth, depth * segments)?;
            lanes.push(Lane {
                id,
                number,
                direction: direction_of(location, id.kind),
                transfers: Box::new(OwnedTransfers::new(channel)),
                count: self.plan.count(number),
                next: 0,
                in_flight: VecDeque::new(),
                idle: VecDeque::new(),
                heard: Heard::at(self.rig.now_ns()),
                given_up: false,
            });
        }
        Ok(lanes)
    }

    fn drive(&mut self, lanes: &mut [Lane<P>]) -> Result<(), Box<dyn std::error::Error>> {
        for lane in lanes.iter_mut() {
            self.refill(lane)?;
        }
        while lanes.iter().any(Lane::is_busy) {
            self.pacer.tick(self.rig);
            self.rig.refresh_messages()?;
            let mut news = false;
            for lane in lanes.iter_mut() {
                news |= self.collect(lane)?;
            }
            if !news && lanes.iter().any(Lane::is_busy) {
                let busy = lanes.iter().filter(|lane| lane.is_busy());
                let deadline = busy.map(|lane| self.pacer.deadline(&lane.heard)).min().unwrap_or(0);
                self.pacer.wait(self.rig, deadline)?;
                for lane in lanes.iter_mut().filter(|lane| lane.is_busy()) {
                    self.look(lane);
                }
            }
        }
        Ok(())
    }

    /// Takes what has finished and submits as much again.
    fn collect(&mut self, lane: &mut Lane<P>) -> Result<bool, RigError> {
        let mut news = false;
        while let Some(finished) = lane.transfers.pop_finished() {
            news = true;
            self.finish(lane, finished)?;
        }
        if news {
            lane.heard = Heard::at(self.rig.now_ns());
            self.refill(lane)?;
        }
        Ok(news)
    }

    /// What to do about a channel of which nothing is heard.
    fn look(&mut self, lane: &mut Lane<P>) {
        match self.pacer.due(self.rig, &mut lane.heard) {
            Due::Nothing => {}
            Due::Look => {
                if let Err(error) = lane.transfers.poll_hardware() {
                    self.tally.cause(error.to_string());
                }
            }
            Due::GiveUp => {
                let ms = self.pacer.limits().timeout_ns / 1_000_000;
                self.give_up(lane, &format!("was silent for {ms} ms"));
            }
        }
    }

    fn refill(&mut self, lane: &mut Lane<P>) -> Result<(), RigError> {
        // A device that is gone ends whatever it is given at once, and that is no test of anything.
        lane.given_up |= self.rig.is_gone();
        let before = lane.next;
        while !lane.given_up && lane.next < lane.count && lane.in_flight.len() < self.plan.depth() {
            self.submit(lane)?;
        }
        if lane.next != before {
            lane.transfers.issue_pending();
        }
        Ok(())
    }

    fn submit(&mut self, lane: &mut Lane<P>) -> Result<(), RigError> {
        let work = self.plan.work(lane.number, lane.next);
        let buffers = self.prepare(lane, &work)?;
        let peripheral = self.plan.peripheral();
        let config = SlaveConfig { peripheral, ..SlaveConfig::at(self.rig.device_address(work.offset)) };
        match lane.transfers.submit(buffers, lane.direction, PrepFlags::INTERRUPT, Some(&config)) {
            Ok(cookie) => {
                lane.in_flight.push_back((cookie, lane.next));
                lane.next += 1;
            }
            Err(refused) => {
                let text = match refused.reason {
                    RefusedReason::Channel(error) => error.to_string(),
                    other => other.to_string(),
                };
                tracing::info!(channel = %lane.id, error = text, "a transfer was refused");
                self.tally.cause(text);
                lane.given_up = true;
            }
        }
        Ok(())
    }

    /// Fills source and destination, and maps the memory side.
    fn prepare(&mut self, lane: &mut Lane<P>, work: &Work) -> Result<Buffers<P, Prepared>, RigError> {
        let mut memory = match lane.idle.pop_front() {
            Some(memory) if memory.iter().map(Vec::len).eq(work.lengths.iter().copied()) => memory,
            _ => work.lengths.iter().map(|length| vec![0; *length]).collect(),
        };
        let (verify, to_device) = (self.plan.verify(), lane.direction == Direction::MemToDev);
        let mut at = work.at;
        for buffer in memory.iter_mut().filter(|_| verify) {
            if to_device {
                self.data.fill(work.stream, at, buffer);
            } else {
                buffer.fill(POISON);
            }
            at += buffer.len() as u64;
        }
        let span = span(work);
        if verify && to_device {
            guard(self.rig, span.offset, span.len)?;
            self.device.poison(self.rig, span)?;
        } else if verify && self.plan.fills_device() {
            guard(self.rig, span.offset, span.len)?;
            self.device.fill(self.rig, &self.data, span)?;
        }
        let direction = if to_device { DataDirection::ToDevice } else { DataDirection::FromDevice };
        let dma = self.rig.platform.dma();
        let map = |memory| Streaming::prepare(dma.clone(), memory, direction, &DmaConstraints::any());
        memory.into_iter().map(map).collect::<Result<_, _>>().map_err(|refused| RigError::dma(refused.error))
    }

    fn finish(
        &mut self,
        lane: &mut Lane<P>,
        finished: Finished<P::Dma, Vec<u8>, SEGMENTS_MAX>,
    ) -> Result<(), RigError> {
        let completion = finished.completion;
        let memory: Vec<Vec<u8>> = finished.buffers.into_iter().map(Streaming::into_inner).collect();
        let Some(place) = lane.in_flight.iter().position(|(cookie, _)| *cookie == completion.cookie) else {
            self.tally.cause(format!("{}: a completion of a transfer that was not submitted", lane.id));
            return Ok(());
        };
        let Some((_, index)) = lane.in_flight.remove(place) else { return Ok(()) };
        let work = self.plan.work(lane.number, index);
        self.progress.add(work.bytes());
        if completion.result != TxResult::NoError {
            let residue = completion.residue;
            self.tally.failed(format!(
                "{}, transfer {index}: {}, {residue} of {} bytes not moved",
                lane.id,
                completion.result,
                work.bytes()
            ));
        } else {
            self.tally.transfers += 1;
            self.tally.bytes += work.bytes();
            if self.plan.verify() {
                self.check(lane, index, &work, &memory)?;
            }
        }
        lane.idle.push_back(memory);
        Ok(())
    }

    fn check(
        &mut self,
        lane: &Lane<P>,
        index: usize,
        work: &Work,
        memory: &[Vec<u8>],
    ) -> Result<(), RigError> {
        let (span, to_device) = (span(work), lane.direction == Direction::MemToDev);
        let mut differences = Differences::default();
        if to_device {
            differences = self.device.check(self.rig, &self.data, span)?;
        } else {
            let mut at = 0;
            for buffer in memory {
                differences.add(self.data.check(work.stream, work.at + at, buffer), at);
                at += buffer.len() as u64;
            }
        }
        self.tally.mismatch(&format!("{}, transfer {index}", lane.id), differences);
        if to_device || self.plan.fills_device() {
            let overrun = check_guards(self.rig, span.offset, span.len)?;
            self.tally.mismatch(&format!("{}, guards of transfer {index}", lane.id), overrun);
        }
        Ok(())
    }

    /// Stops a channel for good. Buffers come back if it obeys, or after a reset.
    fn give_up(&mut self, lane: &mut Lane<P>, why: &str) {
        lane.given_up = true;
        let count = lane.in_flight.len();
        tracing::info!(channel = %lane.id, why, count, "giving up");
        // What a device that is gone says about it is of no use; it is at rest.
        let _ = lane.transfers.terminate_all();
        let stopped = lane.transfers.synchronize(self.rig.delay(), REST_LIMIT_US).is_ok();
        let mut text = format!("{} {why} with {count} transfers", lane.id);
        if !stopped {
            text.push_str(" and obeyed no stop");
            match self.rig.reset() {
                Ok(()) => text.push_str("; the function was reset"),
                Err(error) => text.push_str(&format!("; the function did not come back from reset: {error}")),
            }
        }
        self.tally.failures += count as u64;
        self.tally.cause(text);
        lane.in_flight.clear();
        while let Some(buffers) = lane.transfers.pop_terminated() {
            drop::<Buffers<P, Completed>>(buffers);
        }
    }

    fn close(&mut self, lanes: Vec<Lane<P>>) -> Result<(), RigError> {
        for lane in lanes {
            self.tally.stats(lane.transfers.channel().stats());
            match lane.transfers.into_channel() {
                Ok(channel) => self.rig.close(channel)?,
                // Dropping it puts its buffers into quarantine, which the report counts.
                Err(stuck) => drop(stuck),
            }
        }
        Ok(())
    }
}

fn span(work: &Work) -> Span {
    Span { offset: work.offset, len: work.bytes(), stream: work.stream, at: work.at }
}

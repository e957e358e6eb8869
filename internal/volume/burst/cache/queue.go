package cache

import (
	"container/list"

	"github.com/bee-hpc/bee/internal/volume/burst/remote"
)

// queues decide what is evicted, as S3-FIFO does (Yang, Zhang, Qiu, Yue and Rashmi, "FIFO queues are all you need for
// cache eviction", SOSP 2023). A new block enters a small queue, and leaves the cache from there unless it was read
// again: one large scan passes through, and the main queue stays as it is. A block that comes back soon after it has
// left enters the main queue. The lock of the cache guards all of it.
type queues struct {
	small, main queue
	ghosts      *list.List // keys of blocks that have left the small queue, the newest first
	known       map[key]*list.Element
}

type queue struct {
	list  *list.List // the newest first
	bytes int64
}

// place is where a block is in the queues.
type place struct {
	at   *list.Element
	in   *queue
	uses uint8 // reads that came again, up to mostUses
}

// key is a block of a version, whether it is there or not.
type key struct {
	ino     uint64
	version remote.Version
	index   int64
}

func (b *block) key() key { return key{b.of.ino, b.of.version, b.index} }

const (
	mostUses = 3
	// smallShare is the share of the small queue from which on blocks leave that, in percent.
	smallShare = 10
)

func newQueues() queues {
	return queues{small: queue{list: list.New()}, main: queue{list: list.New()}, ghosts: list.New(), known: map[key]*list.Element{}}
}

func (q *queues) bytes() int64 { return q.small.bytes + q.main.bytes }

func (q *queues) blocks() int { return q.small.list.Len() + q.main.list.Len() }

// add adds a block without content.
func (q *queues) add(b *block) {
	k := b.key()
	if e := q.known[k]; e != nil {
		q.ghosts.Remove(e)
		delete(q.known, k)
		q.main.push(b)
		return
	}
	q.small.push(b)
}

// grow notes that a block has so many bytes more.
func (q *queues) grow(b *block, bytes int64) {
	b.bytes += bytes
	b.in.bytes += bytes
}

// remove removes a block from its queue.
func (q *queues) remove(b *block) { b.in.drop(b) }

// evict takes the block out whose turn it is; nil: there is none.
func (q *queues) evict() *block {
	for q.small.list.Len() > 0 && (q.main.list.Len() == 0 || q.small.bytes*100 >= q.bytes()*smallShare) {
		b := q.small.oldest()
		q.small.drop(b)
		if b.uses > 0 {
			b.uses = 0
			q.main.push(b)
			continue
		}
		q.remember(b.key())
		return b
	}
	for q.main.list.Len() > 0 {
		b := q.main.oldest()
		q.main.drop(b)
		if b.uses == 0 {
			return b
		}
		b.uses--
		q.main.push(b)
	}
	return nil
}

// remember keeps the keys of as many blocks as the cache has.
func (q *queues) remember(k key) {
	q.known[k] = q.ghosts.PushFront(k)
	for q.ghosts.Len() > max(q.blocks(), 16) {
		e := q.ghosts.Back()
		if old, is := q.ghosts.Remove(e).(key); is {
			delete(q.known, old)
		}
	}
}

func (q *queue) push(b *block) {
	b.at, b.in = q.list.PushFront(b), q
	q.bytes += b.bytes
}

func (q *queue) drop(b *block) {
	q.list.Remove(b.at)
	q.bytes -= b.bytes
}

func (q *queue) oldest() *block {
	b, _ := q.list.Back().Value.(*block) // of nothing else
	return b
}

// used notes that a part of a block is read. It counts as used once it is read from before the end of the last read on:
// a program that reads it once, piece by piece, does not use it again.
func (b *block) used(from, to int64) {
	if from < b.end {
		b.uses = min(b.uses+1, mostUses)
	}
	b.end = to
}

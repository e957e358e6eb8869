package fabric

import (
	"encoding/binary"
	"time"
)

// write sends what waits, many frames at once, while more comes in behind.
func (l *Connection) write() {
	defer l.out.close()
	var err error
	for ready := l.ready; err == nil; {
		select {
		case <-ready:
			ready, err = nil, l.alone(func() error { l.open = true; return l.drain() })
		case <-l.out.wake:
			err = l.alone(l.drain)
		case <-l.done:
			return
		}
	}
	l.fail(err)
}

// alone does something as the only one who writes.
func (l *Connection) alone(do func() error) error {
	l.writing.Lock()
	defer l.writing.Unlock()
	return do()
}

// drain sends what waits, but for frames before it is their turn. Callers hold writing.
func (l *Connection) drain() error {
	if err := l.signs(); err != nil || !l.open {
		return err
	}
	return l.out.drain(l.send)
}

func (l *Connection) send(frames []byte) error {
	if err := l.signs(); err != nil {
		return err
	}
	l.spoke = time.Now()
	_, err := l.c.Write(frames)
	return err
}

// atOnce sends some of what waits on behalf of who gave it, without waiting, so that
// nobody has to be woken for it, and reports whether nothing is left.
func (l *Connection) atOnce() bool {
	if !l.writing.TryLock() {
		return false
	}
	defer l.writing.Unlock()
	if !l.open {
		return false
	}
	if l.silent() {
		return true
	}
	for range burstChunks {
		room := l.carrier.Room()
		if room == 0 {
			return false
		}
		err := l.signs()
		if err == nil {
			_, err = l.out.next(room, l.send)
		}
		if err != nil {
			go l.fail(err) // who gave it may hold what that needs
			return true
		}
		if l.silent() {
			return true
		}
	}
	return false
}

// burstChunks are those of what a guest sends at once. More at a time would be what
// others have added meanwhile.
const burstChunks = 4

// silent reports whether it has nothing to say.
func (l *Connection) silent() bool { return l.due.Load() == nothingDue && !l.out.waits() }

// What is due at a beat.
const (
	nothingDue = iota
	lifeDue
	questionDue
)

// signs writes the answers that are owed, the wish if there is one, and what is due.
// Callers hold writing.
func (l *Connection) signs() error {
	if l.wantsMore.Swap(false) {
		if err := l.say(signMore); err != nil {
			return err
		}
	}
	for ; l.owed.Load() > 0; l.owed.Add(-1) {
		if err := l.say(signAnswer); err != nil {
			return err
		}
	}
	due := l.due.Swap(nothingDue)
	if due == nothingDue {
		return nil
	}
	switch {
	case due == questionDue:
		return l.say(signAsk)
	case time.Since(l.spoke) > beat/2: // or else it has heard of us
		return l.say(signLife)
	}
	return nil
}

// tend is what is to be done at each beat: it ends a connection over which nothing comes any
// more, unless it was we who did not read. The other end is to notice this one, and how
// long that takes is found out, at first and then now and again.
func (l *Connection) tend(stopped bool) {
	if stopped || !l.waiting.Load() || l.carrier != nil && l.carrier.Unread() {
		l.hear()
	} else if time.Since(l.Heard()) >= silence {
		go l.fail(errSilent)
		return
	}
	l.remind()
}

// remind has a sign of life be due, or a question.
func (l *Connection) remind() {
	k := l.link
	k.mu.Lock()
	ask := !l.dead && len(l.asked) == 0 && (k.trip == 0 || l.beats%beatsAsked == 0)
	l.beats++
	if ask { // before any that are put behind frames from now on, as it goes ahead of these
		l.asked = append(l.asked, question{time.Now(), func() {}})
		l.due.Store(questionDue)
	}
	k.mu.Unlock()
	l.due.CompareAndSwap(nothingDue, lifeDue)
	l.out.leave()
}

func (l *Connection) say(sign uint32) error {
	_, err := l.c.Write(binary.BigEndian.AppendUint32(nil, sign))
	return err
}

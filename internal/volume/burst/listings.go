package burst

import (
	"errors"
	"io/fs"
	"slices"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/volume/burst/meta"
	"github.com/bee-hpc/bee/internal/volume/burst/remote"
)

// listing is what the newest list of a directory of the remote has shown: which names there are, and so which there are
// not. The lock of the journal guards it.
type listing struct {
	at   time.Time     // when it began; zero: there was none
	took time.Duration // how long the remote took
	size int
	bare map[string]bool // names whose attributes are not known

	asked   int // questions about single names since a time
	since   time.Time
	running bool      // one is on its way
	large   time.Time // when it was seen to have more names than are listed beside what programs do
}

const (
	// lists is how many times as long as a list takes it counts at least, so that lists take a small share of the line;
	// mostListing bounds that.
	lists       = 20
	mostListing = time.Minute
	// questions is how many single names are asked for before the directory is listed, and perQuestion how many names
	// more a list may have for each further question: that costs about as much.
	questions   = 3
	perQuestion = 300
	// askedFor is after what time questions are counted from the start again.
	askedFor = 10 * time.Second
	// mostListings bounds the directories whose lists are known.
	mostListings = 1 << 15
	// mostGlanced is how many names a directory has at most that is listed beside what programs do. Names of a larger one
	// are asked for one by one, for largeFor after that was seen.
	mostGlanced = 10_000
	largeFor    = 10 * time.Minute
	// mergedAtOnce is how many names of a list are compared before others get the lock of the journal.
	mergedAtOnce = 256
)

// lifetime is how long a list counts, and what it shows of its names. Attributes count for fresh in any case.
func (l *listing) lifetime(fresh time.Duration) time.Duration {
	if l == nil || l.at.IsZero() {
		return fresh
	}
	return max(fresh, min(lists*l.took, mostListing))
}

// listing gives what is known of the lists of a directory. Callers hold the lock.
func (ns *names) listing(dir uint64) *listing {
	l := ns.listings[dir]
	if l == nil {
		if len(ns.listings) >= mostListings {
			clear(ns.listings)
		}
		l = &listing{}
		ns.listings[dir] = l
	}
	return l
}

// fresh is how long attributes of a node count. Callers hold the lock.
func (ns *names) fresh(n *meta.Node) time.Duration {
	fresh := ns.tree.Traits().Fresh
	if !ns.far {
		return fresh
	}
	return ns.listings[n.At].lifetime(fresh)
}

// absent reports whether a list shows that a directory has no such name on the remote. Callers hold the lock.
func (ns *names) absent(dir *meta.Node, name string) bool {
	l, fresh := ns.listings[dir.Ino], ns.tree.Traits().Fresh
	if l == nil || !ns.far || l.bare[name] {
		return false
	}
	age, most := time.Since(l.at), l.lifetime(fresh)
	if age >= most {
		return false
	}
	if age > most/2 { // nobody has to wait for the next one
		ns.glance(dir.Ino, l)
	}
	return true
}

// asks notes that a single name of a directory is asked for. Where that happens often, the directory is listed beside
// it. Callers hold the lock.
func (ns *names) asks(dir uint64) {
	if !ns.far {
		return
	}
	l := ns.listing(dir)
	if time.Since(l.since) > askedFor {
		l.asked, l.since = 0, time.Now()
	}
	if l.asked++; l.asked >= questions && l.asked >= l.size/perQuestion {
		ns.glance(dir, l)
	}
}

// glance lists a directory beside what its callers do, once at a time. Callers hold the lock.
func (ns *names) glance(dir uint64, l *listing) {
	if l.running || time.Since(l.large) < largeFor {
		return
	}
	l.running = true
	go func() {
		err := core.Caught(func() error { return ns.glanceOnce(dir) })
		ns.journal.mu.Lock()
		defer ns.journal.mu.Unlock()
		l.running, l.asked, l.since = false, 0, time.Now()
		if err != nil && !errors.Is(err, fs.ErrNotExist) && passing(err) {
			ns.journal.logger.Debug("list directory", "err", err) // a program that asks for a name waits, and reports it
		}
	}()
}

func (ns *names) glanceOnce(dirIno uint64) error {
	ns.lists.RLock()
	defer ns.lists.RUnlock()
	ns.lock.RLock()
	defer ns.lock.RUnlock()
	ns.journal.mu.Lock()
	defer ns.journal.mu.Unlock()
	dir, err := ns.journal.dir(dirIno)
	if err != nil {
		return err
	}
	where, there := ns.journal.state.RemotePath(dir)
	if err := ns.moving(dir); err != nil || !there {
		return err
	}
	begun := time.Now()
	ns.journal.mu.Unlock()
	entries, err := ns.tree.Glance(where, ns.glanced)
	ns.journal.mu.Lock()
	if errors.Is(err, remote.ErrLarge) {
		ns.listing(dirIno).large = time.Now()
		return nil
	}
	if err != nil {
		return err
	}
	return ns.listed(dir, entries, begun)
}

// listed notes what a list that began at a time has shown. Callers hold the lock, which others have meanwhile.
func (ns *names) listed(dir *meta.Node, entries []remote.Entry, begun time.Time) error {
	bare := map[string]bool{}
	for _, e := range entries {
		if n := ns.journal.state.Known(dir, e.Name); e.Kind == 0 && n == nil {
			bare[e.Name] = true
		}
	}
	if err := ns.merge(dir, entries, begun); err != nil {
		return err
	}
	l := ns.listing(dir.Ino)
	l.at, l.took, l.size, l.bare = begun, time.Since(begun), len(entries), bare
	return nil
}

// listedAt gives when the newest list of a directory began; zero: there was none. Callers hold the lock.
func (ns *names) listedAt(dir uint64) time.Time {
	if l := ns.listings[dir]; l != nil {
		return l.at
	}
	return time.Time{}
}

// bare is how many names of a directory were listed without attributes. Callers hold the lock.
func (ns *names) bare(dir uint64) int {
	if l := ns.listings[dir]; l != nil {
		return len(l.bare)
	}
	return 0
}

// shown gives the names of a directory in their order, as far as they are known. Callers hold the lock.
func (ns *names) shown(dir *meta.Node) []string {
	var list []string
	for _, n := range ns.journal.state.Children(dir) {
		list = append(list, n.Name)
	}
	if l := ns.listings[dir.Ino]; l != nil {
		for name := range l.bare {
			if ns.journal.state.Child(dir, name) == nil && ns.journal.state.Known(dir, name) == nil {
				list = append(list, name)
			}
		}
	}
	slices.Sort(list)
	return list
}

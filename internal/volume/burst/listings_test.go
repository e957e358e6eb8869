package burst

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/testkit"
	"github.com/bee-hpc/bee/internal/testkit/s3server"
	"github.com/bee-hpc/bee/internal/volume/burst/calls"
	"github.com/bee-hpc/bee/internal/volume/burst/meta"
	"github.com/bee-hpc/bee/internal/volume/burst/remote"
)

// asked is a volume whose remote is a bucket, and how many requests it has had.
type asked struct {
	*bench
	requests *atomic.Int64
}

func startAsked(t *testing.T) asked {
	t.Helper()
	server := s3server.StartFound(t)
	n := &atomic.Int64{}
	proxy := server.Proxy(t, func(w http.ResponseWriter, r *http.Request, forward http.Handler) {
		n.Add(1)
		forward.ServeHTTP(w, r)
	})
	return asked{startBucket(t, server, Options{At: remote.Place{Endpoint: proxy}}), n}
}

// counts gives the requests that something takes.
func (a asked) counts(do func()) int64 {
	before := a.requests.Load()
	do()
	return a.requests.Load() - before
}

func (a asked) missing(name string) {
	a.Helper()
	if _, err := a.names.Lookup(a.Context(), meta.Root, name); !errors.Is(err, syscall.ENOENT) {
		a.Errorf("%s: %v", name, err)
	}
}

// reopened opens a file, reads it and closes it.
func (a asked) reopened(name string) string {
	a.Helper()
	f, err := a.names.Lookup(a.Context(), meta.Root, name)
	a.must(err)
	_, err = a.OpenFile(a.Context(), who{}, f.Ino, false)
	a.must(err)
	p, err := a.Read(a.Context(), f.Ino, 0, 1<<20)
	a.must(err)
	a.must(a.Release(0, f.Ino, 1))
	return string(p)
}

// TestListedNamesNeedNoLook makes files in a directory that was listed: the remote is not asked for their names. What
// another program makes meanwhile is seen once the list is old, and is never replaced.
func TestListedNamesNeedNoLook(t *testing.T) {
	b := startAsked(t)
	b.foreign("there", "theirs")
	_, err := b.names.List(t.Context(), meta.Root)
	b.must(err)
	b.gate.set(errors.New("the line is cut"))
	b.foreign("x", "theirs")
	if n := b.counts(func() {
		for i := range 20 {
			b.file(fmt.Sprint("new", i), "ours")
		}
		b.file("x", "ours")
		b.missing("none")
	}); n > 8 { // of a list in between, and of the drain
		t.Errorf("%d requests", n)
	}
	b.foreign("y", "theirs")
	b.journal.mu.Lock()
	b.names.listings[meta.Root].at = time.Time{}
	b.journal.mu.Unlock()
	if got := b.reopened("y"); got != "theirs" {
		t.Errorf("y has %q", got)
	}
	b.gate.set(nil)
	b.drained()
	if s := b.Status(); len(s.Conflicts) != 1 || s.Conflicts[0].Path != "x" {
		t.Errorf("conflicts: %+v", s.Conflicts)
	}
	got := tree(t, b.far)
	if got["x"] != "theirs" || got["x.bee-conflict-test"] != "ours" || got["new3"] != "ours" {
		t.Errorf("the remote has %v", got)
	}
}

// TestManyQuestionsAreAList asks for names that are not there: after some, a list answers.
func TestManyQuestionsAreAList(t *testing.T) {
	b := startAsked(t)
	for i := range 5 {
		b.object(fmt.Sprint("d/", i), "theirs")
	}
	for i := range questions {
		b.missing(fmt.Sprint("none", i))
	}
	testkit.Eventually(t, 10*time.Second, func() error {
		if n := b.counts(func() { b.missing("none") }); n != 0 {
			return fmt.Errorf("%d requests", n)
		}
		return nil
	})
	a, err := b.names.Lookup(t.Context(), meta.Root, "d") // the list has no attributes of it
	b.must(err)
	if list, err := b.names.List(t.Context(), a.Ino); err != nil || len(list) != 5 {
		t.Errorf("%v, %v", list, err)
	}
}

// TestLargeDirectoriesAreNotGlanced: names of a directory that has many are asked for one by one, and each is right. A
// program lists all of them.
func TestLargeDirectoriesAreNotGlanced(t *testing.T) {
	b := startAsked(t)
	b.names.glanced = 3
	for i := range 3 {
		b.foreign(fmt.Sprint(i), "theirs")
		b.foreign(fmt.Sprint("d", i), "theirs")
	}
	for i := range 2 * questions {
		b.missing(fmt.Sprint("none", i))
	}
	testkit.Eventually(t, 10*time.Second, func() error {
		b.journal.mu.Lock()
		defer b.journal.mu.Unlock()
		if l := b.names.listing(meta.Root); l.large.IsZero() || l.running || !l.at.IsZero() {
			return fmt.Errorf("the list is %+v", l)
		}
		return nil
	})
	if n := b.counts(func() { b.missing("none") }); n == 0 {
		t.Error("nobody has asked for the name")
	}
	b.foreign("none", "theirs")
	if got := b.reopened("none"); got != "theirs" {
		t.Errorf("it has %q", got)
	}
	if list, err := b.names.List(t.Context(), meta.Root); err != nil || len(list) != 8 { // with that by which the directory stays
		t.Errorf("%v, %v", list, err)
	}
	clear(b.follows) // of when fewer names were known
	if b.reopened("0"); len(b.follows) > 0 {
		t.Error("its files are followed, for which all names are sorted")
	}
}

// TestLongListsLetOthersPass: who changes names while a long list is compared does not wait for its end, and is right.
func TestLongListsLetOthersPass(t *testing.T) {
	b := start(t, Options{keep: true})
	const files = 8 * mergedAtOnce
	for i := range files {
		b.foreign(fmt.Sprint(i), "")
	}
	listed, turns := make(chan error, 1), 0
	go func() {
		_, err := b.names.List(t.Context(), meta.Root)
		listed <- err
	}()
	known := func() int {
		b.journal.mu.Lock()
		defer b.journal.mu.Unlock()
		return b.journal.state.Node(meta.Root).Names()
	}
	for n := 0; n < files; n = known() {
		if n > 0 && turns < 3 {
			turns++
			b.file(fmt.Sprint("ours", turns), "ours")
		}
	}
	b.must(<-listed)
	if turns == 0 {
		t.Error("nobody else had a turn")
	}
	list, err := b.names.List(t.Context(), meta.Root)
	if err != nil || len(list) != files+turns {
		t.Errorf("%d names instead of %d, %v", len(list), files+turns, err)
	}
}

// TestPublishedFilesAreKnown describes files that were drained lately, one by one: the remote is asked for a list at most.
func TestPublishedFilesAreKnown(t *testing.T) {
	b := startAsked(t)
	begun, fresh := time.Now(), b.tree.Traits().Fresh
	for i := range 10 {
		b.file(fmt.Sprint(i), "ours")
	}
	b.drained()
	n := b.counts(func() {
		for i := range 10 {
			_, err := b.names.Lookup(t.Context(), meta.Root, fmt.Sprint(i))
			b.must(err)
		}
	})
	if most := 30 * int64(time.Since(begun)/fresh); n > most { // none, but on a busy machine
		t.Errorf("%d requests, expected up to %d", n, most)
	}
	entries, err := b.tree.Glance(".", mostGlanced)
	b.must(err)
	known := 0
	for _, e := range entries {
		if e.Kind == remote.File && e.Mode == 0o640 {
			known++
		}
	}
	if known != 10 {
		t.Errorf("%d of %v", known, entries)
	}
}

// TestSmallFilesAreReadAsTheyAreOpened by one request, and those after them in their directory ahead.
func TestSmallFilesAreReadAsTheyAreOpened(t *testing.T) {
	b := startAsked(t)
	name := func(i int) string { return fmt.Sprintf("f%02d", i) }
	for i := range 30 {
		b.foreign(name(i), strings.Repeat(name(i), 100))
	}
	_, err := b.names.List(t.Context(), meta.Root)
	b.must(err)
	reads := func(i int) {
		t.Helper()
		if got := b.reopened(name(i)); got != strings.Repeat(name(i), 100) {
			t.Errorf("%s has %q", name(i), got)
		}
	}
	for i := range inOrder {
		if n := b.counts(func() { reads(i) }); n != 1 {
			t.Errorf("%s took %d requests", name(i), n)
		}
	}
	reads(inOrder) // and the next ones
	last, err := b.names.Lookup(t.Context(), meta.Root, name(29))
	b.must(err)
	testkit.Eventually(t, 10*time.Second, func() error {
		b.journal.mu.Lock()
		version := b.journal.state.Node(last.Ino).Version
		b.journal.mu.Unlock()
		if whole, _ := b.cache.Whole(readsOf(b.Volume).reader(last.Ino, version)); !whole {
			return errors.New("the last one is not there")
		}
		return nil
	})
	if n := b.counts(func() {
		for i := inOrder + 1; i < 29; i++ {
			reads(i)
		}
	}); n > 2*26+8 { // two for each that was fetched more than a second ago, on a busy machine; a list or more
		t.Errorf("%d requests", n)
	}
	if s := b.Status(); s.Misses != (inOrder+1)*300 || s.Hits != 26*300 {
		t.Errorf("%d bytes from the remote, and %d from the buffer", s.Misses, s.Hits)
	}
	b.foreign(name(5), "theirs")
	if got := b.reopened(name(5)); got != "theirs" { // it was opened before: the remote is asked
		t.Errorf("%s has %q", name(5), got)
	}
}

// TestRemovedByOthers: a name of a list that another program has removed since is gone once it is opened.
func TestRemovedByOthers(t *testing.T) {
	b := startAsked(t)
	b.foreign("f", "theirs")
	list, err := b.names.List(t.Context(), meta.Root)
	b.must(err)
	ino := uint64(0)
	for _, e := range list {
		if e.Name == "f" {
			ino = e.Attr.Ino
		}
	}
	b.gone("f")
	if _, err := b.OpenFile(t.Context(), who{}, ino, false); err == nil {
		b.must(b.Release(0, ino, 1))
	}
	b.missing("f")
	if _, err := b.Make(t.Context(), who{}, remote.File, &calls.Request{Ino: meta.Root, Name: "f", Mode: 0o600}); err != nil {
		t.Error(err)
	}
}

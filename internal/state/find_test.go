package state

import (
	"strings"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/testkit"
)

func TestFindRun(t *testing.T) {
	s := open(t, t.TempDir())
	first := time.Now()
	for i, r := range []Run{
		{ID: "abcd1234", Name: "old", State: Succeeded},
		{ID: "abce1234", Name: "job", State: Running},
		{ID: "zbcd1234", Name: "job", State: Succeeded},
		{ID: "twin1234", Name: "twin", State: Suspended},
		{ID: "twin5678", Name: "twin", State: Queued},
		{ID: "done1234", Name: "done", State: Failed},
		{ID: "done5678", Name: "done", State: Stopped},
	} {
		r.Created = first.Add(time.Duration(i) * time.Second)
		put(t, s, r)
	}
	for _, c := range []struct {
		name, word string
		why        Meaning
		want       string // the id, or words of the error
		kind       core.Kind
	}{
		{"whole id", "abcd1234", ToForget, "abcd1234", 0},
		{"beginning", "abcd", ToForget, "abcd1234", 0},
		{"short beginning to look", "z", ToSee, "zbcd1234", 0},
		{"short beginning to reach", "z", ToReach, "zbcd1234", 0},
		{"short beginning to end", "zbc", ToEnd, "zbc", core.Invalid},
		{"short beginning to forget", "zbc", ToForget, "zbc", core.Invalid},
		{"short name to forget", "old", ToForget, "abcd1234", 0},
		{"ambiguous beginning", "abc", ToSee, "abcd1234, abce1234", core.Invalid},
		{"unknown", "q", ToEnd, "q", core.NotFound},
		{"empty, to look", "", ToSee, "empty", core.Invalid},
		{"empty, to end", "", ToEnd, "empty", core.Invalid},
		{"newest of a name to look", "job", ToSee, "zbcd1234", 0},
		{"live one of a name to reach", "job", ToReach, "abce1234", 0},
		{"live one of a name to end", "job", ToEnd, "abce1234", 0},
		{"several of a name to forget", "job", ToForget, "zbcd1234 (succeeded), abce1234 (running)", core.Invalid},
		{"several live to look", "twin", ToSee, "twin5678", 0},
		{"several live to reach", "twin", ToReach, "twin5678 (queued), twin1234 (suspended)", core.Invalid},
		{"several live to end", "twin", ToEnd, "twin5678 (queued), twin1234 (suspended)", core.Invalid},
		{"newest where none lives", "done", ToEnd, "done5678", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := s.FindRun(t.Context(), c.word, c.why)
			if c.kind != 0 {
				if !core.IsKind(err, c.kind) || core.Remedy(err) == "" || !strings.Contains(err.Error(), c.want) {
					t.Errorf("got %s, %v; want kind %v, %q and a remedy", got.ID, err, c.kind, c.want)
				}
				testkit.Wording(t, "error", testkit.ErrorText(err))
				return
			}
			if err != nil || got.ID != c.want {
				t.Errorf("got %s, %v; want %s", got.ID, err, c.want)
			}
		})
	}
}

func TestFindRunWhereThereIsOne(t *testing.T) {
	s := open(t, t.TempDir())
	put(t, s, Run{ID: "abcd1234", Name: "job", State: Running})
	if r, err := s.FindRun(t.Context(), "", ToEnd); !core.IsKind(err, core.Invalid) {
		t.Errorf("an empty word means %q, %v", r.ID, err)
	}
}

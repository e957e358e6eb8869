package driver

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// ErrDamaged is the cause where a checkpoint differs from its manifest. The one before it
// may be good.
var ErrDamaged = errors.New("the checkpoint is damaged")

// Checkpoint is one copy of a run's volume in a store.
type Checkpoint struct {
	Generation
	Manifest Manifest
	// Place says where it lies, for people.
	Place string
	// Dir is the directory of this machine with the copy; "": it has none.
	Dir string `json:"-"`
	// Broken is true where the manifest was written and cannot be read now.
	Broken bool
}

// Manifest lists what a checkpoint consists of, to find damage.
type Manifest struct {
	Attempt int               `json:"attempt"`
	Site    string            `json:"site,omitempty"`
	Taken   time.Time         `json:"taken"`
	Took    time.Duration     `json:"took,omitempty"` // to bring it to the store
	Files   map[string]string `json:"files"`          // path to a digest of the content, alike for alike in one store
	Bytes   int64             `json:"bytes"`
	// Shape is a digest of the kinds and names of all entries, in a store that is a
	// directory; "": of an earlier version.
	Shape string `json:"shape,omitempty"`
	// Tree is a digest of the volume with names in place of data, in an object store.
	Tree string `json:"tree_digest,omitempty"`
}

// Digest names a manifest by all of its fields, so that a store that returns another
// checkpoint than it was given is noticed.
func (m Manifest) Digest() string {
	raw, err := json.Marshal(m)
	if err != nil {
		return ""
	}
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:])
}

// longestSite is the longest name of a site in a manifest.
const longestSite = 256

// Valid finds what no manifest of a checkpoint has.
func (m Manifest) Valid(g Generation) error {
	switch {
	case m.Attempt != g.Attempt:
		return fmt.Errorf("it is of attempt %d", m.Attempt)
	case m.Bytes < 0 || m.Took < 0:
		return errors.New("its numbers are negative")
	case len(m.Site) > longestSite || !printable(m.Site):
		return errors.New("its site has no name")
	case m.Taken.After(time.Now().Add(24 * time.Hour)): // clocks differ, but not so much
		return fmt.Errorf("it was taken at %s", m.Taken)
	}
	for name, sum := range m.Files {
		if !filepath.IsLocal(name) || len(sum) > 128 || strings.Trim(sum, "0123456789abcdef") != "" {
			return fmt.Errorf("it has a file %q", name)
		}
	}
	return nil
}

func printable(text string) bool {
	return utf8.ValidString(text) && strings.IndexFunc(text, func(r rune) bool { return unicode.IsControl(r) || unicode.Is(unicode.Cf, r) }) < 0
}

// Generation distinguishes checkpoints of a run, and orders them by age.
type Generation struct {
	Attempt int
	// Snapshot counts those that were kept while the attempt ran; 0 is the one at its
	// end.
	Snapshot int
}

// String returns its name: N, or N.K for a snapshot.
func (g Generation) String() string {
	if g.Snapshot == 0 {
		return strconv.Itoa(g.Attempt)
	}
	return strconv.Itoa(g.Attempt) + "." + strconv.Itoa(g.Snapshot)
}

// ParseGeneration is the inverse of String.
func ParseGeneration(name string) (Generation, bool) {
	number, snapshot, is := strings.Cut(name, ".")
	var g Generation
	var err1, err2 error
	g.Attempt, err1 = strconv.Atoi(number)
	if is {
		g.Snapshot, err2 = strconv.Atoi(snapshot)
	}
	return g, err1 == nil && err2 == nil && g.String() == name
}

// Compare orders by age, the older first.
func (g Generation) Compare(o Generation) int {
	switch {
	case g.Attempt != o.Attempt:
		return g.Attempt - o.Attempt
	case g.Snapshot == 0 || o.Snapshot == 0: // an attempt's end is its last
		return o.Snapshot - g.Snapshot
	}
	return g.Snapshot - o.Snapshot
}

// Package hostilesite gives tests an ssh site that lies. The site is real: an
// agent of bee, nodes and containers. Between it and the bee under test stands a
// program that changes what the agent and the head answer, and what is in the
// site's files, by rules that a test writes down (Lie).
//
// The bee under test sees an `ssh` in its PATH that leads there; no sshd runs.
package hostilesite

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/testkit"
)

// Who speaks.
const (
	Agent = "agent" // `bee remote`, of provider/ssh
	Head  = "head"  // the node of rank 0, by its socket
)

// Lie changes answers. All lies of a site apply, in order.
type Lie struct {
	// Of is whose answers are changed: Agent, or Head.
	Of string
	// Call is the method that was called, such as "ready", "watch" or "addresses".
	// Of Head's "watch" each event is an answer, too.
	Call string
	// Path, if not "", ends the path that the call to an agent was about, such as
	// "result.json".
	Path string
	// Where are fields that an answer must have, with these values; none: any answer.
	Where map[string]any
	// Has, if not "", is a field that an answer must have, such as an event's "result".
	Has string
	// After leaves so many answers as they are first, and Times ends the lie after so
	// many; 0: never.
	After, Times int

	// Patch is merged into the answer's result or event (RFC 7396, so that null
	// removes a field; arrays are replaced whole). A result that is no object is
	// replaced.
	Patch any
	// Then are further messages that follow, for Head's "watch".
	Then []any
	// Repeat sends the answer so many times more, for Head's "watch".
	Repeat int
	// Raw are bytes in place of all that follows the answer's header, which is whole.
	Raw []byte
	// Hang lets the caller wait for ever.
	Hang bool
	// Error refuses the call.
	Error string
	// Run is a shell command that is executed on the site before the call goes to
	// it. $P is the path that the call is about.
	Run string
	// PatchFile is merged, as Patch is, into the file of JSON that the call is about,
	// before it goes to the site.
	PatchFile any
}

// Result has the head's result be another one, wherever bee learns of it.
func Result(patch any) []Lie {
	return []Lie{
		{Of: Head, Call: "watch", Has: "result", Patch: map[string]any{"result": patch}},
		{Of: Agent, Call: "fetch", Path: "result.json", PatchFile: patch},
	}
}

// Site is one that lies.
type Site struct {
	// Dir holds all of it: Home, Scratch and what the program needs.
	Dir, Home, Scratch string
	// Bin has the `ssh` that leads there.
	Bin string
	t   testing.TB
}

// settings are what the program between reads.
type settings struct {
	Binary string
	Lies   []Lie
}

// Start makes a site of one host for a bee, whose sites file has it as the only one,
// called "rack". Lines are further keys of the site, such as "slots: 2".
func Start(t testing.TB, b *testkit.Bee, lies ...Lie) *Site {
	t.Helper()
	s := New(t, lies...)
	b.Env = append(b.Env, "PATH="+s.Bin+":"+os.Getenv("PATH"), "BEE_SITES="+b.File("sites.yaml", "sites:\n  - "+s.Line("rack", "slots: 1")+"\n"))
	return s
}

// New makes a site. The test names it in a sites file by Line, and puts Bin first in
// the bee's PATH.
func New(t testing.TB, lies ...Lie) *Site {
	t.Helper()
	dir := t.TempDir()
	s := &Site{Dir: dir, Home: filepath.Join(dir, "home"), Scratch: filepath.Join(dir, "scratch"), Bin: filepath.Join(dir, "bin"), t: t}
	self, err := os.Executable()
	for _, d := range []string{s.Home, s.Scratch, s.Bin} {
		err = errors.Join(err, os.Mkdir(d, 0o700))
	}
	script := fmt.Sprintf("#!/bin/sh\nexec '%s' %s '%s' \"$@\"\n", self, arg, dir)
	err = errors.Join(err, core.WriteProgram(filepath.Join(s.Bin, "ssh"), []byte(script), 0o755))
	if err != nil {
		t.Fatal(err)
	}
	s.Lie(lies...)
	return s
}

// Line is the site for a sites file.
func (s *Site) Line(name, further string) string {
	return fmt.Sprintf("{name: %s, provider: ssh, hosts: [liar], scratch: %s, %s}", name, s.Scratch, further)
}

// Lie has the site report these lies, and no others, on connections that are made from
// now on.
func (s *Site) Lie(lies ...Lie) {
	s.t.Helper()
	raw, err := json.Marshal(settings{testkit.Binary(s.t), lies})
	if err == nil {
		err = os.WriteFile(filepath.Join(s.Dir, "lies.json.new"), raw, 0o600)
	}
	if err == nil {
		err = os.Rename(filepath.Join(s.Dir, "lies.json.new"), filepath.Join(s.Dir, "lies.json"))
	}
	if err != nil {
		s.t.Fatal(err)
	}
}

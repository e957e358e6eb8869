package vm

import (
	"context"
	"crypto/sha256"
	"debug/elf"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/guest/api"
	"golang.org/x/sys/unix"
)

// template is a guest of no run in which docker answers and has run a container, as
// it was when it was saved. Guests that are brought up from it take a fraction of the time that
// booting takes. They share its memory until they write to it, or have a copy
// where others map their memory.
//
// A directory of templates, which belongs to one guest image, holds
//
//	<key>/       the template: a record, memory, disk, and state of the devices
//	<key>.lock   locked by who decides about it or makes it; its word is empty
//	             before it was wanted, and unfit where it cannot be had
type template struct{ dir, key string }

// Files of a template.
const (
	templateRecord = "template.json"
	templateMemory = "memory"
	templateState  = "state"
)

// mostTemplates is how many are kept of one guest image: those that were used
// last.
const mostTemplates = 4

// Words of a template's lock.
const (
	wanted = "wanted"
	unfit  = "unfit"
)

// templateInfo is a template's record.
type templateInfo struct {
	Version int                `json:"version"`
	Type    string             `json:"type"` // of QEMU's machine
	Files   map[string]content `json:"files"`
}

const templateVersion = 1

// impersonal is what is the same for all guests of one kind, whatever run they
// are of.
func (b boot) impersonal() boot {
	c := b.config
	b.config = api.Config{Template: true, Hostname: "template", UID: c.UID, GID: c.GID, User: c.User, Bridge: c.Bridge, Env: c.Env}
	b.qemu.Name, b.qemu.Disks, b.qemu.Nets, b.qemu.Shares = "template", nil, nil, nil
	b.image, b.pin, b.templates = "", nil, ""
	return b
}

// template gives that which fits the machine, there or not; false: none can.
func (b boot) template(ctx context.Context) (template, bool) {
	if b.templates == "" || b.qemu.HugePages || b.qemu.Unmovable() {
		return template{}, false
	}
	key, err := b.templateKey(ctx)
	return template{b.templates, key}, err == nil
}

// templateKey names all that a template depends on, beside the guest image.
func (b boot) templateKey(ctx context.Context) (string, error) {
	own := b.impersonal()
	version, err := exec.CommandContext(ctx, own.qemu.Program[0], append(slices.Clone(own.qemu.Program[1:]), "--version")...).Output()
	if err != nil {
		return "", err
	}
	binary, err := buildID(b.binary)
	if err != nil {
		return "", err
	}
	raw, err := json.Marshal([]any{templateVersion, own.qemu, own.config, own.disk, binary, string(version), hostProcessor()})
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:8]), err
}

// buildID is what Go's linker calls a program: two that differ have not the same.
func buildID(program string) ([]byte, error) {
	f, err := elf.Open(program)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	s := f.Section(".note.go.buildid")
	if s == nil {
		return nil, fmt.Errorf("%s has no build ID", program)
	}
	return s.Data()
}

// hostProcessor is what a guest may see of its host.
func hostProcessor() []string {
	kernel, _ := os.ReadFile("/proc/version")
	words := []string{string(kernel)}
	raw, _ := os.ReadFile("/proc/cpuinfo")
	for line := range strings.Lines(string(raw)) {
		for _, key := range []string{"model name", "flags", "Features", "CPU part"} {
			if strings.HasPrefix(line, key) && !slices.Contains(words, line) {
				words = append(words, line)
			}
		}
	}
	return words
}

func (t template) path() string            { return filepath.Join(t.dir, t.key) }
func (t template) file(name string) string { return filepath.Join(t.path(), name) }

// hold keeps a template, as it is, until the file is closed: on a file system of
// the network, what is removed is gone for those who have it mapped, too.
func (t template) hold(how int) (*os.File, error) {
	f, err := os.OpenFile(t.file(templateRecord), os.O_RDWR, 0) // by NFS, who locks others out has to be able to write
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), how|unix.LOCK_NB); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// remove removes a template that no guest uses.
func (t template) remove() {
	f, err := t.hold(unix.LOCK_EX)
	if err != nil {
		return
	}
	defer f.Close()
	os.RemoveAll(t.path()) //nolint:errcheck // what is left of it is removed before it is made anew
}

// read gives the record of a template that is there.
func (t template) read() (templateInfo, error) {
	var i templateInfo
	raw, err := os.ReadFile(t.file(templateRecord))
	if err == nil {
		err = json.Unmarshal(raw, &i)
	}
	return i, err
}

// ready tells whether a guest can be brought up from the template, once it has
// made it where that is due. A template is due when it is wanted for the second
// time: one that is wanted once would only delay who wants it. Who comes while
// it is made waits, which takes less time than to boot. An error tells why it could
// not be made.
func (t template) ready(ctx context.Context, tell func(string), build func() error) (bool, error) {
	if err := os.MkdirAll(t.dir, 0o700); err != nil {
		return false, nil //nolint:nilerr // guests boot without
	}
	lock, err := t.lock(ctx)
	if err != nil {
		return false, nil //nolint:nilerr // as above
	}
	defer lock.Close()
	if _, err := t.read(); err == nil {
		return true, nil
	}
	word, err := io.ReadAll(lock)
	switch {
	case err != nil || string(word) == unfit:
		return false, nil //nolint:nilerr // as above
	case len(word) == 0:
		lock.WriteString(wanted) //nolint:errcheck // then it is due later
		return false, nil
	}
	tell("making a template of this virtual machine, from which the next ones start quicker")
	if err := build(); err != nil {
		if ctx.Err() == nil {
			t.giveUp()
		}
		return false, err
	}
	t.dropOthers()
	return true, nil
}

// lock waits for who decides about the template.
func (t template) lock(ctx context.Context) (*os.File, error) {
	f, err := os.OpenFile(t.path()+".lock", os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	for {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			return f, nil
		}
		if !errors.Is(err, unix.EWOULDBLOCK) && !errors.Is(err, unix.EINTR) {
			f.Close()
			return nil, err
		}
		select {
		case <-time.After(lockPause):
		case <-ctx.Done():
			f.Close()
			return nil, context.Cause(ctx)
		}
	}
}

// lockPause is between two looks at a lock.
const lockPause = 20 * time.Millisecond

// giveUp has nobody try again to make the template.
func (t template) giveUp() {
	os.WriteFile(t.path()+".lock", []byte(unfit), 0o600) //nolint:errcheck // then the next one tries, too
}

// drop removes a template that is damaged; the next one who wants it makes it
// anew. One that never worked is not made again.
func (t template) drop() {
	i, err := os.Stat(t.file(templateRecord))
	if err == nil && i.ModTime().Equal(neverUsed) {
		t.giveUp()
	}
	t.remove()
}

// neverUsed is the time of use of a template from which no guest came up yet.
var neverUsed = time.Unix(0, 0)

// used notes that a guest came up.
func (t template) used() {
	now := time.Now()
	os.Chtimes(t.file(templateRecord), now, now) //nolint:errcheck // then it is taken for an old one
}

// dropOthers removes those templates of the guest image that were used longest
// ago, and what is left of those that somebody made who was killed.
func (t template) dropOthers() {
	halves, _ := filepath.Glob(filepath.Join(t.dir, "*"+newSuffix))
	for _, dir := range halves {
		template{t.dir, strings.TrimSuffix(filepath.Base(dir), newSuffix)}.dropHalf()
	}
	records, err := filepath.Glob(filepath.Join(t.dir, "*", templateRecord))
	if err != nil {
		return
	}
	when := map[string]time.Time{}
	others := records[:0]
	for _, r := range records {
		if i, err := os.Stat(r); err == nil && filepath.Dir(r) != t.path() {
			when[r] = i.ModTime()
			others = append(others, r)
		}
	}
	slices.SortFunc(others, func(a, b string) int { return when[b].Compare(when[a]) })
	for _, r := range others[min(len(others), mostTemplates-1):] {
		template{t.dir, filepath.Base(filepath.Dir(r))}.remove()
	}
}

// dropHalf removes what is left of a template that was being made, unless it still is.
func (t template) dropHalf() {
	f, err := os.OpenFile(t.path()+".lock", os.O_RDWR, 0)
	if err != nil {
		return
	}
	defer f.Close()
	if unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) == nil {
		os.RemoveAll(t.path() + newSuffix) //nolint:errcheck // tried again by the next one
	}
}

// check compares a file with what it was, and fills another one with it (nil:
// there is none).
func (i templateInfo) check(t template, name string, fill *os.File) error {
	f, err := os.Open(t.file(name))
	if err != nil {
		return err
	}
	defer f.Close()
	var is content
	if fill != nil {
		is, err = fillBlocks(fill, f)
	} else {
		is, err = readBlocks(f, nil)
	}
	if err == nil && is != i.Files[name] {
		err = damaged(t.file(name))
	}
	return err
}

func damaged(file string) error {
	return &core.Error{Kind: core.Permanent, Op: "use template", Object: file, Err: errors.New("it is damaged")}
}

package burst

import (
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"syscall"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/volume/burst/remote"
)

// mostKeys bounds keys on their way to a process, in bytes: a pipe has room for them.
const mostKeys = 1 << 15

// sendKeys has a process get the keys of the volume on its standard input, once it is started. No command line,
// variable or file has them.
func (c Config) sendKeys(p *exec.Cmd) (send func(started bool), err error) {
	if c.Keys == nil {
		return func(bool) {}, nil
	}
	raw, err := json.Marshal(c.Keys)
	if err == nil && len(raw) > mostKeys {
		err = &core.Error{Kind: core.Invalid, Op: "send credentials for", Object: c.Remote, Err: io.ErrShortBuffer, Remedy: "Use shorter ones."}
	}
	if err != nil {
		return nil, err
	}
	from, to, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	p.Stdin = from
	return func(started bool) {
		from.Close()
		if started {
			core.BestEffort(to.Write(raw)) // a process that has ended reports so
		}
		to.Close()
	}, nil
}

// receiveKeys reads what sendKeys sends; nil: nothing was sent. Such a process leaves no image of its memory on a disk
// when it crashes.
func receiveKeys(from io.Reader) (*remote.Keys, error) {
	raw, err := io.ReadAll(io.LimitReader(from, mostKeys+1))
	if err != nil || len(raw) == 0 {
		return nil, err
	}
	if err := syscall.Setrlimit(syscall.RLIMIT_CORE, &syscall.Rlimit{}); err != nil {
		return nil, err
	}
	var k remote.Keys
	return &k, json.Unmarshal(raw, &k)
}

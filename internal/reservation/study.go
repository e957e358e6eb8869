package reservation

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// Study is who has a host, or an allocation, for measurements alone.
type Study struct {
	Name string `json:"name"`
	// Token is the same wherever one study measures.
	Token string `json:"token"`
	// By names the process and its machine, for people.
	By string `json:"by"`
}

// HeldError is the error of what another study has.
type HeldError struct{ By Study }

func (e *HeldError) Error() string {
	if e.By.Name == "" {
		return "another study is measured there now"
	}
	return fmt.Sprintf("the study %s is measured there now, by %s", e.By.Name, e.By.By)
}

const (
	studyFile = "study"
	mostStudy = 4096
)

// LockForStudy locks this host, or an allocation of it, for a study, until unlock is called or
// the process ends. Where another study of the same user has it, the error is a HeldError. A
// study may have it several times: emulated hosts share a machine.
func (l Ledger) LockForStudy(allocation string, s Study) (unlock func(), err error) {
	entered, err := l.enter()
	if err != nil {
		return nil, err
	}
	defer entered.Close()
	name := studyFile
	if allocation != "" {
		name += "-" + allocation
	}
	f, err := os.OpenFile(filepath.Join(string(l), filepath.Base(name)), os.O_CREATE|os.O_RDWR|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, err
	}
	err = lock(f)
	if errors.Is(err, unix.EWOULDBLOCK) {
		by := noted(f)
		f.Close()
		if by.Token == s.Token && s.Token != "" {
			return func() {}, nil
		}
		return nil, &HeldError{by}
	}
	var note []byte
	if err == nil {
		note, err = json.Marshal(s)
	}
	if err == nil {
		err = f.Truncate(0)
	}
	if err == nil {
		_, err = f.WriteAt(note, 0)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return func() { f.Close() }, nil
}

// noted is who has a file locked, as far as its note can be read.
func noted(f *os.File) (by Study) {
	text, err := io.ReadAll(io.LimitReader(f, mostStudy))
	if err != nil || json.Unmarshal(text, &by) != nil {
		return Study{}
	}
	return by
}

package node

import (
	"encoding/json"
	"io"
	"os"
	"strings"

	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/node/protocol"
	"golang.org/x/sys/unix"
)

// configuration reads a node's, and has it move to its place first, if it does not
// run there yet.
func configuration(r io.Reader) (protocol.Config, error) {
	d := json.NewDecoder(r)
	var first struct {
		protocol.Config
		Place *driver.NodePlace `json:"place"`
	}
	if err := d.Decode(&first); err != nil || first.Place == nil {
		return first.Config, err
	}
	if err := moveIn(*first.Place); err != nil {
		return protocol.Config{}, err
	}
	var c protocol.Config
	err := d.Decode(&c)
	return c, err
}

// moveIn makes this process what one would be that was started at its place.
func moveIn(p driver.NodePlace) error {
	log, err := os.OpenFile(p.Log, os.O_CREATE|os.O_WRONLY|os.O_APPEND|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	for _, fd := range []int{unix.Stdout, unix.Stderr} {
		if err := unix.Dup3(int(log.Fd()), fd, 0); err != nil {
			return err
		}
	}
	for _, variable := range p.Env {
		name, value, _ := strings.Cut(variable, "=")
		if err := os.Setenv(name, value); err != nil {
			return err
		}
	}
	return nil
}

// Package instance learns from a machine's cloud what the machine is to be: from a drive with its configuration, or from
// the metadata service, of EC2 or of OpenStack. It bounds and checks all that these have. It changes nothing, and knows
// neither guests nor sites.
package instance

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/fsutil"
)

// Instance is what a cloud has for a machine.
type Instance struct {
	// ID is the cloud's for this machine: another machine from the same disk has another one.
	ID string
	// Hostname is its first label; "" where the cloud has none that is one.
	Hostname string
	// Script is the start script; empty: there is none.
	Script []byte
}

// Bounds of what is read, in bytes. Clouds take start scripts of 64 KiB at most.
const (
	mostMetadata = 1 << 20
	mostScript   = 64 << 10
)

// ErrScript is the error of user data that is no script.
var ErrScript = errors.New("the user data is no script: its first line does not begin with #! and an interpreter")

var (
	idForm    = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]{0,127}$`)
	labelForm = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?$`)
)

// instance checks what a cloud has reported.
func instance(id, hostname string, script []byte) (Instance, error) {
	if !idForm.MatchString(id) {
		return Instance{}, fmt.Errorf("the machine's id %q is none", core.Printable(id, 80))
	}
	i := Instance{ID: id}
	if label, _, _ := strings.Cut(hostname, "."); labelForm.MatchString(label) {
		i.Hostname = label
	}
	if len(script) > 0 && !strings.HasPrefix(string(script), "#!") {
		return i, ErrScript // the machine is one all the same
	}
	i.Script = script
	return i, nil
}

// openstack is what OpenStack's metadata has, of which these are a part.
type openstack struct {
	UUID     string `json:"uuid"`
	Hostname string `json:"hostname"`
	Name     string `json:"name"`
}

func (o openstack) instance(script []byte) (Instance, error) {
	if o.Hostname == "" {
		o.Hostname = o.Name
	}
	return instance(o.UUID, o.Hostname, script)
}

func parseOpenStack(raw []byte) (openstack, error) {
	var o openstack
	if err := json.Unmarshal(raw, &o); err != nil {
		return o, fmt.Errorf("read the metadata: %w", err)
	}
	return o, nil
}

// Labels are those that a drive with a configuration may have: of ISO 9660, and of FAT.
func Labels() []string { return []string{"config-2", "CONFIG-2"} }

// Drive reads the drive with a configuration, which is mounted on a directory.
func Drive(dir string) (Instance, error) {
	raw, err := fsutil.ReadFile(dir, "openstack/latest/meta_data.json", mostMetadata)
	if err != nil {
		return Instance{}, err
	}
	o, err := parseOpenStack(raw)
	if err != nil {
		return Instance{}, err
	}
	script, err := fsutil.ReadFile(dir, "openstack/latest/user_data", mostScript)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return Instance{}, err
	}
	return o.instance(script)
}

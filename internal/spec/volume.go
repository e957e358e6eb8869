package spec

import (
	"encoding/json"
	"fmt"
	"path"
	"reflect"
	"strings"
	"time"

	"github.com/goccy/go-yaml/ast"
)

// Volume is the directory that all tasks of a run share. In a Beefile it may
// also be a path or one of the kinds.
type Volume struct {
	// Path of it inside the containers; default /work.
	Path string `yaml:"path"`
	// Kind: auto (default), virtio, dataimage or burst. The first three matter to virtual
	// machines only; containers on the hosts have the hosts' directory.
	Kind string `yaml:"kind"`
	// Size is the most that a data image can hold; default 20G, or half of
	// what is free on node 0's host, where that is less, but no less than From has.
	Size Size `yaml:"size"`
	// From is a local data image: what it holds is in the volume before anything
	// runs. It stays as it is.
	From string `yaml:"from"`
	// Shared is SharedRequired where sites whose hosts share no file system cannot take
	// the job; default SharedAny.
	Shared string `yaml:"shared" json:",omitempty"`
	// Remote of a burst buffer: a directory of the submitting machine, one of a host behind
	// ssh, or a prefix of a bucket.
	Remote string `yaml:"remote" json:",omitempty"`
	// Disk is the most that the buffer takes on the host; 0: half of what is free, at most 100G.
	Disk Size `yaml:"disk" json:",omitempty"`
	// Rate is the most of the line that the buffer uses; 0: all of it.
	Rate BitRate `yaml:"rate" json:",omitempty"`
	// Protect has nothing changed that was on the remote before.
	Protect bool `yaml:"protect" json:",omitempty"`
	// Credentials is where those for a bucket come from: CredentialsSite, CredentialsSend or CredentialsRelay. "":
	// CredentialsSite where the host has some, else CredentialsRelay.
	Credentials string `yaml:"credentials" json:",omitempty"`
	// Prefetch are patterns of files in the volume that a burst buffer fetches while the job starts.
	Prefetch []string `yaml:"prefetch" json:",omitempty"`
	// Expect is what the job reads and writes, for predictions.
	Expect Expect `yaml:"expect" json:",omitzero"`
}

// Expect is what a job with a burst buffer is expected to read and write.
type Expect struct {
	// Write is the bytes of one burst, and Every the time of computing before each.
	Write Size          `yaml:"write" json:",omitempty"`
	Every time.Duration `yaml:"every" json:",omitempty"`
	// Read is the bytes that are read in all, and Reuse the share of reads that repeat.
	Read  Size    `yaml:"read" json:",omitempty"`
	Reuse float64 `yaml:"reuse" json:",omitempty"`
}

// Words of Volume.Credentials.
const (
	// CredentialsSite has the host find them as AWS's tools do.
	CredentialsSite = "site"
	// CredentialsSend sends the user's own to the host.
	CredentialsSend = "send"
	// CredentialsRelay has the submitting machine pass requests on with the user's own, which stay there.
	CredentialsRelay = "relay"
)

// SendsKeys reports whether the user's credentials for a bucket are sent to hosts.
func (j *Job) SendsKeys() bool { return j.Volume.Credentials == CredentialsSend }

// MayRelay reports whether the submitting machine may have to pass requests for a bucket on.
func (j *Job) MayRelay() bool {
	v := j.Volume
	return v.Kind == VolumeBurst && strings.HasPrefix(v.Remote, "s3://") && (v.Credentials == "" || v.Credentials == CredentialsRelay)
}

// NeedsController reports whether a site cannot start the job by itself, as something of it is stored on no disk there.
func (j *Job) NeedsController() bool {
	return len(j.Secrets) > 0 || j.SendsKeys() || j.Volume.Credentials == CredentialsRelay
}

// Words of Volume.Shared.
const (
	SharedAny      = "any"
	SharedRequired = "required"
)

// NeedsShared reports whether the job has several nodes, which must see one volume.
func (j *Job) NeedsShared() bool { return j.Volume.Shared == SharedRequired && j.Nodes > 1 }

// Kinds of Volume.
const (
	VolumeAuto   = "auto"
	VolumeVirtio = "virtio"
	VolumeImage  = "dataimage"
	VolumeBurst  = "burst"
)

const defaultVolume = "/work"

// leastVolume is the smallest data image.
const leastVolume = 64 << 20

// volumeForm is Volume without its own decode, so that object can fill it.
type volumeForm Volume

func (v *Volume) decode(d *decoder, n ast.Node, where string) {
	switch n.(type) {
	case *ast.MappingNode, *ast.MappingValueNode:
		d.object(n, reflect.ValueOf((*volumeForm)(v)).Elem(), where)
		return
	}
	word, ok := d.text(n, where)
	if !ok {
		return
	}
	switch word {
	case VolumeAuto, VolumeVirtio, VolumeImage, VolumeBurst:
		v.Kind = word
	default:
		v.Path = word
	}
}

// MarshalJSON has a volume that is only a path be one in records.
func (v Volume) MarshalJSON() ([]byte, error) {
	if reflect.DeepEqual(v, Volume{Path: v.Path}) {
		return json.Marshal(v.Path)
	}
	return json.Marshal(volumeForm(v))
}

// UnmarshalJSON reads what MarshalJSON writes.
func (v *Volume) UnmarshalJSON(raw []byte) error {
	if strings.HasPrefix(string(raw), `"`) {
		return json.Unmarshal(raw, &v.Path)
	}
	return json.Unmarshal(raw, (*volumeForm)(v))
}

// volume finds volumes that cannot be.
func (jc *jobCheck) volume() {
	j := jc.job
	v := j.Volume
	switch {
	case !jc.report.allRead("volume"):
	case !path.IsAbs(v.Path) || path.Clean(v.Path) == "/":
		jc.report.at("volume", "such as /work, or one of auto, virtio, dataimage and burst", "volume: %q is no absolute path below /", v.Path)
		jc.report.fails("volume")
	default:
		jc.target("volume", v.Path)
	}
	jc.report.oneOf("volume.kind", v.Kind)
	jc.report.oneOf("volume.shared", v.Shared)
	jc.report.oneOf("volume.credentials", v.Credentials)
	if jc.report.allRead("volume", "vm", "checkpoint", "nodes") && j.NeedsShared() && j.SavesVM() && v.Kind != VolumeImage {
		jc.report.at("volume.shared", "add `kind: dataimage`", "volume.shared: virtual machines that are saved have a volume each")
	}
	jc.burst()
	if !jc.report.allRead("volume", "vm", "nodes") {
		return
	}
	machines := j.VM != nil && j.VM.When != VMNever
	switch {
	case v.Kind == VolumeImage && !machines:
		jc.report.at("volume", "add `vm: true`, or leave the kind out", "volume: a data image needs virtual machines, which attach it")
	case v.Kind == VolumeImage && j.VM.When == VMAuto:
		jc.report.at("volume", "`vm: true`, or leave the kind out", "volume: a data image needs virtual machines on every site, and `vm: auto` may have none")
	case v.Kind == VolumeImage && j.Nodes > 1 && j.VM.Fabric == "none":
		jc.report.at("volume", "", "volume: without a network between the guests (vm.fabric) they cannot share a data image")
	}
	if v.From != "" && v.Kind != VolumeImage {
		jc.report.atKey("volume.from", "add `kind: dataimage`, or give a directory by `inputs:`", "volume.from is for data images")
	}
	switch {
	case v.Size != 0 && v.Size < leastVolume:
		jc.report.at("volume.size", "at least 64M", "volume.size: a data image has no room for a file system in so little")
	case v.Size != 0 && (v.Kind == VolumeVirtio || v.Kind == VolumeBurst || !machines):
		jc.report.atKey("volume.size", "", "volume.size is for data images: the hosts' own directory has what the hosts have")
	}
}

// leastBuffer is the smallest buffer, in bytes.
const leastBuffer = 16 << 20

// burst finds burst buffers that cannot be.
func (jc *jobCheck) burst() {
	v, r := jc.job.Volume, jc.report
	if v.Expect.Reuse < 0 || v.Expect.Reuse > 1 {
		r.at("volume.expect.reuse", "from 0 to 1", "volume.expect.reuse: %v cannot be", v.Expect.Reuse)
	}
	if v.Kind != VolumeBurst {
		for key, given := range map[string]bool{"remote": v.Remote != "", "disk": v.Disk != 0, "rate": v.Rate != 0, "protect": v.Protect, "prefetch": len(v.Prefetch) > 0, "credentials": v.Credentials != "", "expect": v.Expect != Expect{}} {
			if given {
				r.atKey("volume."+key, "add `kind: burst`", "volume.%s is for burst buffers", key)
			}
		}
		return
	}
	if !r.allRead("volume", "vm", "nodes", "checkpoint") {
		return
	}
	_, err := ParseStore(v.Remote)
	switch {
	case v.Remote == "":
		r.at("volume", "such as `remote: ./results`, ann@archive:run7 or s3://bucket/run7", "volume: a burst buffer needs `remote:`, to which it is drained")
	case err != nil:
		r.at("volume.remote", "such as ./results, ann@archive:run7 or s3://bucket/run7", "volume.remote: %v", err)
	}
	jc.prefetch()
	if v.Credentials != "" && !strings.HasPrefix(v.Remote, "s3://") {
		r.atKey("volume.credentials", "leave it out, or name a bucket as `remote:`", "volume.credentials is for buckets")
	}
	if v.Disk != 0 && v.Disk < leastBuffer {
		r.at("volume.disk", "at least 16M", "volume.disk: a buffer has no room for files in so little")
	}
	switch {
	case jc.job.VM != nil && jc.job.VM.When != VMNever:
		r.at("volume", "leave `vm:` out, or use another kind", "volume: virtual machines cannot have a burst buffer yet")
	case jc.job.Checkpoint != nil && strings.HasPrefix(v.Remote, "s3://"):
		r.at("volume.remote", "a directory, or one of a host behind ssh", "volume.remote: checkpoints of a burst buffer in a bucket do not exist yet")
	}
}

// prefetch finds patterns that match nothing in the volume.
func (jc *jobCheck) prefetch() {
	j := jc.job
	if !jc.report.allRead("workdir") {
		return
	}
	for i, p := range j.Volume.Prefetch {
		at := fmt.Sprintf("volume.prefetch[%d]", i)
		if in := j.inWorkdir(p); !path.IsAbs(in) || !below(in, j.Volume.Path) {
			jc.report.at(at, "such as "+path.Join(j.Volume.Path, "input/*.nc"), "%s: %q does not lie in the volume %s", at, p, j.Volume.Path)
		}
		if _, err := path.Match(p, ""); err != nil {
			jc.report.at(at, "", "%s: %q is no valid pattern", at, p)
		}
	}
}

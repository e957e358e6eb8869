package burst

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/user"
	"path"
	"path/filepath"
	"strings"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/fsutil"
	"github.com/bee-hpc/bee/internal/volume/burst/remote"
	"github.com/bee-hpc/bee/internal/volume/burst/replica"
	"github.com/bee-hpc/bee/internal/wire"
)

// Config is the record of a volume, in its directory below the state directory.
type Config struct {
	ID     string `json:"id"`
	Remote string `json:"remote"`
	// At is where the remote is; the directory of its name, if empty.
	At remote.Place `json:"at,omitzero"`
	// Mount is where the client mounts it; "" before it was mounted.
	Mount string `json:"mount,omitempty"`
	// Place is the directory of the journal.
	Place string `json:"place"`
	Room  int64  `json:"room"`
	Rate  int64  `json:"rate,omitempty"`
	// Protect and Local are as in Options.
	Protect bool     `json:"protect,omitempty"`
	Local   []string `json:"local,omitempty"`
	// Private is whether the mount is in namespaces of its attempt's node: programs outside of them do not see it.
	Private bool `json:"private,omitempty"`
	// Alone is whether nobody manages the volume on its host: once it is drained, the I/O process removes it.
	Alone bool `json:"alone,omitempty"`
	// Everyone is whether programs of other users can use the mount.
	Everyone bool `json:"everyone,omitempty"`
	// Shared is whether clients of several hosts use it. Afar is the record of such a client: the
	// I/O process is on another host, and the node answers at the socket in its place.
	Shared bool `json:"shared,omitempty"`
	Afar   bool `json:"afar,omitempty"`
	// Of is the run whose volume it is; "": it is no run's. Installation and Attempt are those of the attempt
	// that has mounted it last; "" and 0: an earlier version did.
	Of           string `json:"of,omitempty"`
	Installation string `json:"installation,omitempty"`
	Attempt      int    `json:"attempt,omitempty"`
	// Run is that of a volume with checkpoints, of the names that Globs match; none: all names. Number is the
	// checkpoint from which it continues; 0: the run begins.
	Run    string   `json:"run,omitempty"`
	Globs  []string `json:"globs,omitempty"`
	Number int      `json:"number,omitempty"`
	// Epoch counts the volumes that the run has had; 0: this one does not have the remote yet.
	Epoch int `json:"epoch,omitempty"`
	// Over is whether the run needs no checkpoint any more.
	Over bool `json:"over,omitempty"`
	// Superseded is whether another volume of the run has taken the remote over.
	Superseded bool `json:"superseded,omitempty"`
	// Sent is whether Keys were sent, or have to be: a process that starts without them has no way to the bucket.
	Sent bool `json:"sent,omitempty"`
	// Relay is whether the submitting machine passes requests for the bucket on, by the node.
	Relay bool `json:"relay,omitempty"`

	// Replicas is how many hosts have what is undrained; 0 or 1: the one of the I/O process. Copy is the name of this
	// host's copy then, and Follows whether its process keeps that like the leader's.
	Replicas int    `json:"replicas,omitempty"`
	Copy     string `json:"copy,omitempty"`
	Follows  bool   `json:"follows,omitempty"`

	// Ended is why the I/O process has ended before everything was done; nil: it has not.
	Ended *Ended `json:"ended,omitempty"`

	// Dir is that of the record.
	Dir string `json:"-"`
	// Keys are credentials for the bucket that the user has sent; nil: they are found on this host. A process passes
	// them to those that it starts, and to nobody else.
	Keys *core.BucketKeys `json:"-"`
	// Spare is whether Keys may be older ones than an I/O process has.
	Spare bool `json:"-"`

	away    time.Duration // 0: awayFor; tests have slow hosts
	abandon time.Duration // 0: abandonTimeout
	copies  replica.Timing
}

const (
	configName = "volume.json"
	lockName   = "lock"
	socketName = "socket"
	relayName  = "relay" // socket of the node
	logName    = "log"
	notesName  = "uploads"
	lockedName = "locked" // clients have locks

	// BufferName is the directory of a journal that is beside its record.
	BufferName = "buffer"
)

const (
	idBytes    = 4
	mostConfig = 1 << 20 // bytes of a record
)

// NewID gives the id of a new volume.
func NewID() string {
	var b [idBytes]byte
	rand.Read(b[:])
	return hex.EncodeToString(b[:])
}

// Owner is the attempt that has mounted the volume last.
func (c Config) Owner() core.Owner {
	return core.Owner{User: c.Installation, Run: c.Of, Attempt: c.Attempt}
}

// Save writes the record.
func (c Config) Save() error {
	if err := fsutil.OwnDir(c.Dir); err != nil {
		return err
	}
	raw, err := json.Marshal(c)
	if err != nil {
		return err
	}
	return fsutil.WriteFile(filepath.Join(c.Dir, configName), raw, 0o600)
}

// mark writes the record into the directory of the journal, too: from that disk alone the
// volume can be recovered.
func (c Config) mark() error {
	raw, err := json.Marshal(c)
	if err != nil {
		return err
	}
	there, err := fsutil.ReadFile(c.Place, configName, mostConfig)
	if err == nil && bytes.Equal(there, raw) {
		return nil
	}
	return fsutil.WriteFile(filepath.Join(c.Place, configName), raw, 0o600)
}

// Left reads the record of the volume whose journal is in a directory. Its Place is that
// directory, wherever its disk was mounted before; it is in no installation yet.
func Left(place string) (Config, error) {
	dir, err := fsutil.OpenOwn(place) // nobody else has written what it names
	if err != nil {
		return Config{}, err
	}
	defer dir.Close()
	var c Config
	raw, err := dir.ReadFile(configName, mostConfig)
	if err == nil {
		err = json.Unmarshal(raw, &c)
	}
	if err == nil && !isID(c.ID) {
		err = fmt.Errorf("it names %q, which is no volume", c.ID)
	}
	c.Place, c.Mount, c.Dir, c.Private, c.Alone, c.Ended = place, "", "", false, false, nil
	c.Sent, c.Relay = false, false
	return c, err
}

// isID reports whether a text is an id as NewID makes them.
func isID(id string) bool {
	raw, err := hex.DecodeString(id)
	return err == nil && len(raw) == idBytes
}

// Forget removes the record.
func (c Config) Forget() error {
	dir, err := fsutil.OpenOwn(c.Dir)
	if err != nil {
		return err
	}
	defer dir.Close()
	if err := dir.Unlink(configName); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return dir.SyncDir(".")
}

// Remove removes what a drained volume has left on this host: its record and its buffer. Callers have its lock.
func (c Config) Remove() error {
	if c.Of != "" && (c.Private || c.Alone) {
		fsutil.TryRemove(c.Mount) // its node may have died; it is empty, unless it is in use
	}
	if err := c.Forget(); err != nil { // before the buffer: a record without that is a disk that is not mounted
		return err
	}
	return errors.Join(fsutil.RemoveAll(c.Place), fsutil.RemoveAll(c.Dir))
}

// Load reads the record in a directory.
func Load(dir string) (Config, error) {
	var c Config
	raw, err := fsutil.ReadFile(dir, configName, mostConfig)
	if err == nil {
		err = json.Unmarshal(raw, &c)
	}
	c.Dir = dir
	return c, err
}

// again loads a record again, as others may have changed it before this process had the lock.
func (c Config) again() (Config, error) {
	now, err := Load(c.Dir)
	now.Keys, now.away, now.abandon, now.copies = c.Keys, c.away, c.abandon, c.copies
	return now, err
}

// All reads the records of the volumes below a directory.
func All(volumes string) ([]Config, error) {
	root, err := fsutil.OpenRoot(volumes)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer root.Close()
	names, err := root.ReadDir(".")
	if err != nil {
		return nil, err
	}
	var all []Config
	for _, name := range names {
		c, err := Load(filepath.Join(volumes, name))
		if errors.Is(err, fs.ErrNotExist) {
			continue // it is being made, or removed
		}
		if err != nil {
			return nil, &core.Error{Kind: core.Permanent, Op: "read record of volume", Object: filepath.Join(volumes, name), Err: err}
		}
		all = append(all, c)
	}
	return all, nil
}

// Lock keeps the I/O process of a volume from running; a Busy error where it runs.
func (c Config) Lock() (*fsutil.Lock, error) {
	return fsutil.TryLockFor(c.LockPath(), fsutil.Momentary)
}

// LockPath is the file that Lock locks.
func (c Config) LockPath() string { return filepath.Join(c.Dir, lockName) }

// LogPath is the log of the volume's processes.
func (c Config) LogPath() string { return filepath.Join(c.Dir, logName) }

// OpenRemote opens the remote for reading. far opens one behind ssh.
func (c Config) OpenRemote(far remote.Opener) (remote.Remote, error) {
	return opened(c.At, c.Remote, far, remote.Options{Volume: c.holder(), Rate: c.Rate, Notes: filepath.Join(c.Dir, notesName), Keys: c.Keys, Dial: c.relay(), Fence: c.fenced()})
}

// Listen makes the socket of the I/O process, or of what passes on to it.
func (c Config) Listen() (net.Listener, error) {
	socket, err := c.inside(socketName)
	if err != nil {
		return nil, err
	}
	return wire.ListenUnix(socket)
}

// DialConn connects with the socket.
func (c Config) DialConn(ctx context.Context) (net.Conn, error) {
	socket, err := c.inside(socketName)
	if err != nil {
		return nil, err
	}
	return wire.DialUnix(ctx, socket)
}

// inside gives the path of a name in the directory of the record, which is the user's alone.
func (c Config) inside(name string) (string, error) {
	dir, err := fsutil.OpenOwn(c.Dir)
	if err != nil {
		return "", err
	}
	return filepath.Join(c.Dir, name), dir.Close()
}

// claim is the record on the remote of the volume that uses it.
type claim struct {
	ID    string    `json:"id"`
	Host  string    `json:"host"`
	User  string    `json:"user"`
	Since time.Time `json:"since"`
	// Run and Epoch are of the volume of a run with checkpoints. Its record stays between attempts.
	Run   string `json:"run,omitempty"`
	Epoch int    `json:"epoch,omitempty"`
	// Volume is that of which ID is a copy: the one that leads. Copies are the others that are complete, and Term
	// counts these configurations. A volume with one copy has none of them.
	Volume string   `json:"volume,omitempty"`
	Term   int      `json:"term,omitempty"`
	Copies []string `json:"copies,omitempty"`
}

// take notes on the remote that a volume uses it. A remote that another one uses is Busy.
// One that lacks the record of a volume with undrained data is not what it was. A volume whose journal is
// used has had the remote before, whatever its record has for the epoch: that beside the journal is of its first start.
func take(r remote.Remote, c *Config, undrained, used bool) error {
	of, raw, err := owner(r, *c)
	switch {
	case err == nil && of.ID == c.holder():
		return c.setEpoch(of.Epoch)
	case err == nil && c.Run != "" && of.Run == c.Run && (c.Epoch > 0 || used):
		c.Superseded = true
		return errors.Join(c.Save(), &core.Error{
			Kind: core.Busy, Op: "use remote", Object: c.Remote, Err: fmt.Errorf("volume %s, of a later attempt of run %s, has it", core.Printable(of.ID, 40), c.Run),
			Remedy: "Nothing of this volume is drained any more. `bee volume export " + c.ID + " DIR` saves what is undrained.",
		})
	case err == nil && c.Run != "" && of.Run == c.Run:
		next, err := json.Marshal(newClaim(*c, of.Epoch+1))
		if err != nil {
			return err
		}
		err = r.ReplaceRecord(raw, next)
		if errors.Is(err, fs.ErrExist) { // another one was quicker, or an answer was lost
			return take(r, c, undrained, used)
		}
		if err != nil {
			return err
		}
		return c.setEpoch(of.Epoch + 1)
	case err == nil && of.Run != "":
		return &core.Error{
			Kind: core.Busy, Op: "use remote", Object: c.Remote, Err: fmt.Errorf("run %s of %s on %s has its checkpoints there", core.Printable(of.Run, 40), core.Printable(of.User, 40), core.Printable(of.Host, 80)),
			Remedy: "Wait until that run has succeeded. If it is over, remove " + path.Dir(r.RecordPath()) + ".",
		}
	case err == nil:
		return &core.Error{
			Kind: core.Busy, Op: "use remote", Object: c.Remote,
			Err:    fmt.Errorf("volume %s of %s on %s uses it since %s", core.Printable(of.ID, 40), core.Printable(of.User, 40), core.Printable(of.Host, 80), of.Since.Format(time.DateTime)),
			Remedy: "Unmount it there. If that buffer is lost for good, remove " + r.RecordPath() + ".",
		}
	case !errors.Is(err, fs.ErrNotExist):
		return err
	case undrained:
		return &core.Error{
			Kind: core.Transient, Op: "use remote", Object: c.Remote, Err: fmt.Errorf("volume %s has undrained data for it, and its record %s is missing", c.ID, r.RecordPath()),
			Remedy: "Mount the file system of that directory. If the record was removed, make it again: `" + again(r.RecordPath(), *c) + "`.",
		}
	}
	if raw, err = json.Marshal(newClaim(*c, 1)); err != nil {
		return err
	}
	err = r.SetRecord(raw)
	if errors.Is(err, fs.ErrExist) { // another volume was quicker, or an answer was lost
		return take(r, c, undrained, used)
	}
	if err != nil {
		return err
	}
	return c.setEpoch(1)
}

// setEpoch notes that the volume of a run has the remote.
func (c *Config) setEpoch(epoch int) error {
	if c.Run == "" || c.Epoch == epoch {
		return nil
	}
	c.Epoch = epoch
	return c.Save()
}

// newClaim is the record of a volume that takes a remote now.
func newClaim(c Config, epoch int) claim {
	host, _ := os.Hostname() // for messages only
	of := claim{ID: c.holder(), Host: host, Since: time.Now(), Run: c.Run}
	if c.copied() {
		of.Volume, of.Term = c.ID, 1
	}
	if c.Run != "" {
		of.Epoch = epoch
	}
	if u, err := user.Current(); err == nil {
		of.User = u.Username
	}
	return of
}

// again is a command that makes the record of a volume.
func again(record string, c Config) string {
	text := `echo '{"id":"` + c.ID + `"}'`
	switch {
	case c.copied():
		text = fmt.Sprintf(`echo '{"id":%q,"run":%q,"epoch":%d,"volume":%q,"term":1}'`, c.Copy, c.Run, c.Epoch, c.ID)
	case c.Run != "":
		text = fmt.Sprintf(`echo '{"id":%q,"run":%q,"epoch":%d}'`, c.ID, c.Run, c.Epoch)
	}
	switch {
	case c.At.Bucket != "":
		return text + " | aws s3 cp - " + record
	case c.At.Host != "":
		_, file, _ := strings.Cut(record, ":")
		return text + " | ssh " + c.At.Host + " 'cat > " + file + "'"
	}
	return "mkdir -p " + filepath.Dir(record) + "; " + text + " > " + record
}

// owner reads the record on a remote, and returns its text, too.
func owner(r remote.Remote, c Config) (of claim, raw []byte, err error) {
	if raw, err = r.Record(); err != nil {
		return of, nil, err
	}
	if err := json.Unmarshal(raw, &of); err != nil || of.ID == "" {
		return of, nil, &core.Error{Kind: core.Permanent, Op: "use remote", Object: c.Remote, Err: fmt.Errorf("%s is no record of a volume", r.RecordPath()), Remedy: "Remove that if nothing of BEE uses the remote."}
	}
	return of, raw, nil
}

// Leave removes the record of a volume from the remote.
func Leave(r remote.Remote, c Config) error {
	of, _, err := owner(r, c)
	if errors.Is(err, fs.ErrNotExist) || err == nil && of.ID != c.holder() {
		return nil
	}
	if err == nil {
		err = r.RemoveRecord()
	}
	return err
}

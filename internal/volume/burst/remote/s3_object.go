package remote

import (
	"fmt"
	"os"
	"path"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Names of metadata, as s3fs and rclone have them, and of BEE's own.
const (
	metaMode  = "mode"
	metaMtime = "mtime"
	metaToken = "bee-change"
	metaFrom  = "bee-from" // version that a move has copied
)

// dirVersion is the version of all directories: what is in them has versions of its own.
var dirVersion = Version{Tag: "/"}

// object is one of the bucket.
type object struct {
	entry Entry
	meta  map[string]string
	at    time.Time // when the bucket has made it, or when it was looked at
}

// metadata gives attributes as metadata, with the kind in the mode as stat(2) has it.
func metadata(kind Kind, mode uint32, mtime int64, token string) map[string]string {
	mode &= 0o1777
	switch kind {
	case Dir:
		mode |= syscall.S_IFDIR
	case Link:
		mode |= syscall.S_IFLNK
	default:
		mode |= syscall.S_IFREG
	}
	m := map[string]string{metaMode: fmt.Sprint(mode), metaToken: token}
	if mtime != 0 {
		m[metaMtime] = timeText(mtime)
	}
	return m
}

// describeObject reads what is known of an object. A stranger who may write to the
// bucket may have written the metadata: they give nobody rights but those of its file.
func describeObject(name string, dir bool, size int64, tag string, modified time.Time, meta map[string]string) Entry {
	e := Entry{Name: path.Base(name), Kind: File, Mode: 0o644, UID: uint32(os.Getuid()), GID: uint32(os.Getgid()), Mtime: modified.UnixNano(), Version: Version{Tag: tag, Size: size}}
	if dir {
		e.Kind, e.Mode, e.Loose, e.Version = Dir, 0o755, true, dirVersion
	}
	if mode, err := strconv.ParseUint(meta[metaMode], 10, 32); err == nil {
		e.Mode = uint32(mode) & 0o1777
		if mode&syscall.S_IFMT == syscall.S_IFLNK && !dir && size < syscall.PathMax {
			e.Kind, e.Mode = Link, 0o777
		}
	}
	if at, is := parseTime(meta[metaMtime]); is {
		e.Mtime, e.Loose = at, false
	}
	return e
}

// timeText writes nanoseconds since 1970 as seconds with nine decimals.
func timeText(ns int64) string {
	sign := ""
	if ns < 0 {
		sign, ns = "-", -ns
	}
	return fmt.Sprintf("%s%d.%09d", sign, ns/1e9, ns%1e9)
}

// parseTime reads seconds since 1970 with up to nine decimals, as nanoseconds.
func parseTime(text string) (int64, bool) {
	whole, part, _ := strings.Cut(text, ".")
	seconds, err := strconv.ParseInt(whole, 10, 64)
	if err != nil || seconds < -1<<33 || seconds > 1<<33 {
		return 0, false
	}
	nanos, err := strconv.ParseUint((part + "000000000")[:9], 10, 32)
	if err != nil {
		return 0, false
	}
	if strings.HasPrefix(whole, "-") {
		return seconds*1e9 - int64(nanos), true
	}
	return seconds*1e9 + int64(nanos), true
}

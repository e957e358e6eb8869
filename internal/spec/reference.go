package spec

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// IsLocalImage tells an image that is named by a path of this machine.
func IsLocalImage(ref string) bool {
	scheme, _, is := strings.Cut(ref, ":")
	return is && slices.Contains([]string{"oci", "docker-archive", "oci-archive"}, scheme)
}

// ImageFrom gives an image's reference with its path, if it has one, as seen
// from a directory.
func ImageFrom(dir, ref string) string {
	scheme, path, _ := strings.Cut(ref, ":")
	if IsLocalImage(ref) && !filepath.IsAbs(path) {
		return scheme + ":" + filepath.Join(dir, path)
	}
	return ref
}

// SplitPath tells the path of an image from the tag behind it; both may have
// colons. Where there is no such path, all of it is one.
func SplitPath(rest string) (path, tag string) {
	for at := 1; at <= len(rest); at++ {
		if at < len(rest) && rest[at] != ':' {
			continue
		}
		if _, err := os.Stat(rest[:at]); err == nil {
			return rest[:at], strings.TrimPrefix(rest[at:], ":")
		}
	}
	return rest, ""
}

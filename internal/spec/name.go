package spec

import (
	"path"
	"strings"
)

// NameOfImage is the name of a job that an image alone describes: the last part of its
// reference, without tag and digest.
func NameOfImage(ref string) string {
	ref = withScheme(ref)
	if scheme, rest, is := strings.Cut(ref, ":"); is && IsLocalImage(scheme+":") {
		file, _ := SplitPath(rest)
		base := path.Base(file)
		for _, ending := range []string{".gz", ".tar", ".sif"} {
			base = strings.TrimSuffix(base, ending)
		}
		return base
	}
	ref, _, _ = strings.Cut(ref, "@")
	name, _, _ := strings.Cut(path.Base(ref), ":")
	return name
}

// Here makes a path that a user typed absolute, as seen from the job's directory.
func (j *Job) Here(p string) string { return j.local(p) }

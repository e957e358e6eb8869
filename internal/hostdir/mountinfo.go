package hostdir

import (
	"os"
	"slices"
	"strconv"
	"strings"
)

// Point is where something is mounted, as this process sees it.
type Point struct {
	Path     string
	ReadOnly bool
}

// PointsBelow returns the mount points at or below a directory, whose path has no links.
// Of several at one place the last is what a process finds there.
func PointsBelow(dir string) ([]Point, error) {
	raw, err := os.ReadFile("/proc/self/mountinfo") //nolint:forbidigo // the kernel fills it
	if err != nil {
		return nil, err
	}
	return pointsBelow(string(raw), dir), nil
}

// pointsBelow reads them in the form of proc(5).
func pointsBelow(info, dir string) (points []Point) {
	for line := range strings.Lines(info) {
		fields := strings.Fields(line)
		if len(fields) < 6 {
			continue
		}
		p := Point{Path: unescaped(fields[4]), ReadOnly: slices.Contains(strings.Split(fields[5], ","), "ro")}
		if p.Path == dir || strings.HasPrefix(p.Path, strings.TrimSuffix(dir, "/")+"/") {
			points = append(points, p)
		}
	}
	return points
}

// unescaped is a path of mountinfo: blanks, backslashes and line breaks in it are octal
// there.
func unescaped(field string) string {
	var b strings.Builder
	for i := 0; i < len(field); i++ {
		if field[i] == '\\' && i+3 < len(field) {
			if n, err := strconv.ParseUint(field[i+1:i+4], 8, 8); err == nil {
				b.WriteByte(byte(n))
				i += 3
				continue
			}
		}
		b.WriteByte(field[i])
	}
	return b.String()
}

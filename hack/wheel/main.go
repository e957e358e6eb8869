// Command wheel writes the Python client with the program bee as a wheel (PEP 427): equal
// files give equal bytes, with the time of SOURCE_DATE_EPOCH.
//
//	go run ./hack/wheel VERSION ARCH BINARY SBOM LICENCES DIRECTORY
package main

import (
	"archive/zip"
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// client is the directory of the Python client.
const client = "clients/python"

// machines are the names that Python has for architectures.
var machines = map[string]string{"amd64": "x86_64", "arm64": "aarch64"}

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "wheel:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) != 6 {
		return errors.New("usage: wheel VERSION ARCH BINARY SBOM LICENCES DIRECTORY")
	}
	version, machine, into := pythonVersion(args[0]), machines[args[1]], args[5]
	if machine == "" {
		return fmt.Errorf("architecture %q: Python has no name for it here", args[1])
	}
	epoch, err := strconv.ParseInt(os.Getenv("SOURCE_DATE_EPOCH"), 10, 64)
	if err != nil {
		return fmt.Errorf("SOURCE_DATE_EPOCH: %w", err)
	}
	files, err := content(version, machine, args[2], args[3], args[4])
	if err != nil {
		return err
	}
	raw, err := archive(files, "bee_hpc-"+version+".dist-info/RECORD", time.Unix(epoch, 0).UTC())
	if err != nil {
		return err
	}
	name := "bee_hpc-" + version + "-py3-none-" + strings.Join(platforms(machine), ".") + ".whl"
	return os.WriteFile(filepath.Join(into, name), raw, 0o644)
}

// platforms are those on which a static binary runs, with any C library.
func platforms(machine string) []string {
	return []string{"manylinux2014_" + machine, "manylinux_2_17_" + machine, "musllinux_1_1_" + machine}
}

// content returns the files of the wheel by their paths in it.
func content(version, machine, binary, sbom, licences string) (map[string][]byte, error) {
	info := "bee_hpc-" + version + ".dist-info/"
	wheel := "Wheel-Version: 1.0\nGenerator: bee\nRoot-Is-Purelib: false\n"
	for _, p := range platforms(machine) {
		wheel += "Tag: py3-none-" + p + "\n"
	}
	files := map[string][]byte{info + "WHEEL": []byte(wheel)}
	sources := map[string]string{
		"bee_hpc-" + version + ".data/scripts/bee": binary, info + "sboms/bee.cdx.json": sbom, // PEP 770
		info + "LICENSE": "LICENSE", info + "LICENSES-OF-PARTS.txt": licences, info + "METADATA": filepath.Join(client, "METADATA"),
	}
	for _, root := range []string{client, filepath.Join(client, "engines")} { // packages of which have their names at the top of a wheel
		modules, err := filepath.Glob(filepath.Join(root, "*", "*.py"))
		if err != nil {
			return nil, err
		}
		for _, m := range modules {
			if name, err := filepath.Rel(root, m); err == nil && !strings.HasPrefix(name, "tests/") {
				sources[name] = m
			}
		}
	}
	sources["bee/py.typed"] = filepath.Join(client, "bee", "py.typed")
	for path, source := range sources {
		raw, err := os.ReadFile(source)
		if err != nil {
			return nil, err
		}
		files[path] = raw
	}
	files[info+"METADATA"] = bytes.Replace(files[info+"METADATA"], []byte("${VERSION}"), []byte(version), 1)
	return files, nil
}

// archive returns the files as a zip archive, with their record at its end.
func archive(files map[string][]byte, record string, at time.Time) ([]byte, error) {
	var out, sums bytes.Buffer
	z := zip.NewWriter(&out)
	add := func(path string, data []byte) error {
		h := &zip.FileHeader{Name: path, Method: zip.Deflate, Modified: at}
		mode := fs.FileMode(0o644)
		if strings.Contains(path, ".data/scripts/") {
			mode = 0o755
		}
		h.SetMode(mode)
		w, err := z.CreateHeader(h)
		if err == nil {
			_, err = w.Write(data)
		}
		return err
	}
	for _, path := range slices.Sorted(maps.Keys(files)) {
		sum := sha256.Sum256(files[path])
		fmt.Fprintf(&sums, "%s,sha256=%s,%d\n", path, base64.RawURLEncoding.EncodeToString(sum[:]), len(files[path]))
		if err := add(path, files[path]); err != nil {
			return nil, err
		}
	}
	fmt.Fprintf(&sums, "%s,,\n", record)
	if err := add(record, sums.Bytes()); err != nil {
		return nil, err
	}
	err := z.Close()
	return out.Bytes(), err
}

// pythonVersion returns a version of `git describe` or of a tag in the form of PEP 440.
func pythonVersion(version string) string {
	release, rest, more := strings.Cut(strings.TrimPrefix(version, "v"), "-")
	if before := regexp.MustCompile(`^(a|b|rc)\.?(\d+)(?:-(.*))?$`).FindStringSubmatch(rest); before != nil {
		release += before[1] + before[2]
		rest, more = before[3], before[3] != ""
	}
	if more {
		release += "+" + strings.Trim(regexp.MustCompile(`[^a-z0-9]+`).ReplaceAllString(strings.ToLower(rest), "."), ".")
	}
	return release
}

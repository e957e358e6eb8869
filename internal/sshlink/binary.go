package sshlink

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"

	"github.com/klauspost/compress/gzip"
)

// binary is what a host's copy of the bee binary is recognised by.
type binary struct {
	sum  string
	size int64
}

// binaries gives the binary for each architecture that is here.
func (p *Client) binaries() (map[string]binary, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.known != nil {
		return p.known, nil
	}
	known := map[string]binary{}
	for _, arch := range architectures() {
		path, err := p.s.BinaryFor(arch)
		if err != nil {
			continue // reported when a host of that architecture turns up
		}
		f, err := os.Open(path)
		if err != nil {
			return nil, err
		}
		h := sha256.New()
		size, err := io.Copy(h, f)
		f.Close()
		if err != nil {
			return nil, err
		}
		known[arch] = binary{hex.EncodeToString(h.Sum(nil)), size}
	}
	p.known = known
	return known, nil
}

// sendBinary sends a host a binary, after the number of bytes that come.
func (p *Client) sendBinary(w io.Writer, host, path string, packed bool) error {
	var (
		from io.Reader
		size int64
	)
	if packed {
		data, err := p.pack(path)
		if err != nil {
			return err
		}
		from, size = bytes.NewReader(data), int64(len(data))
	} else {
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		defer f.Close()
		info, err := f.Stat()
		if err != nil {
			return err
		}
		from, size = f, info.Size()
	}
	if _, err := fmt.Fprintf(w, "%d\n", size); err != nil {
		return err
	}
	if p.s.Progress != nil {
		from = &ProgressReader{Reader: from, Report: func(done int64) { p.s.Progress("bringing bee to "+host, done, size) }}
	}
	_, err := io.Copy(w, from)
	return err
}

// pack compresses a binary, once for all hosts: it goes to each of them by itself,
// and lines from home are slow.
func (p *Client) pack(path string) ([]byte, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if data := p.packed[path]; data != nil {
		return data, nil
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	if _, err := io.Copy(z, f); err != nil {
		return nil, err
	}
	if err := z.Close(); err != nil {
		return nil, err
	}
	if p.packed == nil {
		p.packed = map[string][]byte{}
	}
	p.packed[path] = out.Bytes()
	return out.Bytes(), nil
}

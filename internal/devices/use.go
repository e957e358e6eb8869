package devices

import (
	"bufio"
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Watch measures what some GPUs of this host use: NVIDIA's by nvidia-smi, which costs little
// as long as it runs, and AMD's by the kernel's files (Linux, Documentation/gpu/amdgpu).
type Watch struct {
	host  Host
	cards []string // render nodes of AMD's
	mu    sync.Mutex
	used  map[int]gpuUse // of NVIDIA's, by their indexes
	at    time.Time      // of the newest
}

// gpuUse is what a GPU uses: a part of its time, and bytes.
type gpuUse struct{ busy, memory float64 }

const (
	// watchEvery is how often nvidia-smi prints, in seconds.
	watchEvery = 10
	// watchStale is how old what it printed may be.
	watchStale = 3 * watchEvery * time.Second
	// mostGPUs bounds the GPUs of a host.
	mostGPUs = 256
)

// Watch measures the n GPUs that Find finds, until ctx ends.
func (h Host) Watch(ctx context.Context, n int) *Watch {
	w := &Watch{host: h, used: map[int]gpuUse{}}
	set, err := h.Find(n)
	if err != nil {
		return w
	}
	nvidia := 0
	for _, path := range set.Devices {
		name := filepath.Base(path)
		if number, is := strings.CutPrefix(name, "nvidia"); is && number != "" && number[0] >= '0' && number[0] <= '9' {
			nvidia++
		}
		if strings.HasPrefix(name, "renderD") {
			w.cards = append(w.cards, name)
		}
	}
	if nvidia > 0 {
		go w.nvidia(ctx, min(nvidia, mostGPUs))
	}
	return w
}

// nvidia reads what nvidia-smi prints of the first n GPUs.
func (w *Watch) nvidia(ctx context.Context, n int) {
	program := w.host.SMI
	if program == "" {
		program = "nvidia-smi"
	}
	c := exec.CommandContext(ctx, program, "--query-gpu=index,utilization.gpu,memory.used", "--format=csv,noheader,nounits", "--loop="+strconv.Itoa(watchEvery))
	out, err := c.StdoutPipe()
	if err != nil || c.Start() != nil { // then nothing is known
		return
	}
	w.read(out, n)
	c.Process.Kill()
	c.Wait() //nolint:errcheck // how it ended is of no consequence
}

// read reads lines such as "0, 87, 10240": an index, percent and MiB.
func (w *Watch) read(from io.Reader, n int) {
	for lines := bufio.NewScanner(from); lines.Scan(); {
		fields := strings.Split(lines.Text(), ", ")
		if len(fields) != 3 {
			continue
		}
		index, err := strconv.Atoi(strings.TrimSpace(fields[0]))
		busy, isBusy := share(fields[1])
		memory, isMemory := number(fields[2], 1<<20)
		if err != nil || index < 0 || index >= n || !isBusy || !isMemory { // [N/A] of what is divided (MIG)
			continue
		}
		w.mu.Lock()
		w.used[index], w.at = gpuUse{busy, memory}, time.Now()
		w.mu.Unlock()
	}
}

// Use returns how many GPUs are in use, and bytes of their memory, as far as that is known.
func (w *Watch) Use() (gpus, memory float64, known bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if time.Since(w.at) < watchStale {
		for _, u := range w.used {
			gpus, memory, known = gpus+u.busy, memory+u.memory, true
		}
	}
	for _, card := range w.cards {
		dir := filepath.Join(w.host.Root, "/sys/class/drm", card, "device")
		busy, isBusy := share(text(filepath.Join(dir, "gpu_busy_percent")))
		used, isMemory := number(text(filepath.Join(dir, "mem_info_vram_used")), 1)
		if isBusy && isMemory {
			gpus, memory, known = gpus+busy, memory+used, true
		}
	}
	return gpus, memory, known
}

// share reads percent as a part of one.
func share(text string) (float64, bool) {
	n, is := number(text, 1)
	return n / 100, is && n <= 100
}

func number(text string, unit float64) (float64, bool) {
	n, err := strconv.ParseUint(strings.TrimSpace(text), 10, 48)
	return float64(n) * unit, err == nil
}

// text is a file of the kernel; empty: it cannot be read.
func text(file string) string {
	raw, err := os.ReadFile(file)
	if err != nil {
		return ""
	}
	return string(raw)
}

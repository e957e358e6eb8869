package stats

import "math/rand/v2"

// Order returns the order of k environments in each of some blocks: order[b][p] is the
// environment in place p of block b. Blocks come in Williams designs (Austral. J. Sci.
// Res. A 2, 1949): in k blocks, or 2k for an odd k, each environment is in each place, and
// behind each other one, equally often. Names and blocks of each design are shuffled. The
// same seed returns the same order, and more blocks only append to it.
func Order(k, blocks int, seed uint64) [][]int {
	rng := rand.New(rand.NewPCG(seed, 0x6265652d62656e63)) // the order need not be secret
	var order [][]int
	for k > 0 && len(order) < blocks {
		design := williams(k)
		names := rng.Perm(k)
		for _, row := range rng.Perm(len(design)) {
			block := make([]int, k)
			for p, e := range design[row] {
				block[p] = names[e]
			}
			order = append(order, block)
		}
	}
	return order[:min(max(blocks, 0), len(order))]
}

func williams(k int) [][]int {
	first := make([]int, k) // 0, 1, k−1, 2, k−2, …
	for p := 1; p < k; p++ {
		if p%2 == 1 {
			first[p] = (p + 1) / 2
		} else {
			first[p] = k - p/2
		}
	}
	var rows [][]int
	for shift := range k {
		row, mirror := make([]int, k), make([]int, k)
		for p, e := range first {
			row[p] = (e + shift) % k
			mirror[k-1-p] = row[p]
		}
		rows = append(rows, row)
		if k%2 == 1 && k > 1 {
			rows = append(rows, mirror)
		}
	}
	return rows
}

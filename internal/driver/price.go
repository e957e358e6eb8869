package driver

import "time"

// Price is what a host costs an hour by a price list of its site.
type Price struct {
	Amount float64 `json:"amount"`
	// Most is what the dearest host costs that the site may grant in its place, in Facts; 0: Amount.
	Most float64 `json:"most,omitempty"`
	// Currency is that of the list, such as USD.
	Currency string `json:"currency"`
	// Source is where it comes from.
	Source PriceSource `json:"source"`
	// Asked is when the site was asked for it.
	Asked time.Time `json:"asked"`
}

// PriceSource is where a price comes from.
type PriceSource string

// Sources of prices.
const (
	PriceOfUser PriceSource = "price"      // `price` in the sites file
	PriceOfList PriceSource = "price_list" // the price list of the cloud
	PriceOfSpot PriceSource = "spot_price" // the cloud's market of spot machines
)

"""Making a cheaper model: quantize, prune, distill, restructure attention. Nothing is here yet; the cards say so."""

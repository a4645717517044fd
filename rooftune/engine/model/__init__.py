"""Models of the Llama family: files to stored tensors, tokenizer, chat template, and the forward pass."""

"""What the other layers are made of: masks, dropout, initial weights, normalization, backend kernels."""

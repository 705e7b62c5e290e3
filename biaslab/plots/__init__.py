"""What figures of all papers are drawn with: one look, the forms that several of them take, galleries of images."""

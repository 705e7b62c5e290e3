"""What people say of images: files of theirs, the sample that they are asked about, and how far they agree."""
